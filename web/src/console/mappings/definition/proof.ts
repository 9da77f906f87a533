// What a shadow run has proved for an activated version, in words.
import { t } from "../../texts";
import { groupedNumber } from "../../ui/number";
import type { Evidence } from "../types";

const TENTHS_OF_PERCENT = 1000;
/** Outcomes after which a message is no longer read. */
const LOST = ["accepted_to_refused", "accepted_to_parked", "accepted_to_not_taken"];

const percent = (share: number) => `${Math.round(share * TENTHS_OF_PERCENT) / 10} %`;

/** Returns the words; without a shadow run, a dash. */
export function proofWords(evidence: Evidence | null): string {
  if (!evidence) return t("proof.none");
  const { compared, differ, total, estimate, classes, state } = evidence;
  if (compared === 0) return t("proof.begun");
  const lost = LOST.reduce((sum, name) => sum + (classes[name] ?? 0), 0);
  const found =
    state === "done" || compared >= total
      ? t("proof.all", { count: compared, differ: groupedNumber(differ) })
      : t("proof.sample", {
          count: compared,
          total: groupedNumber(total),
          share: percent(estimate.share),
          margin: percent(estimate.margin),
        });
  return lost ? `${found}, ${t("proof.lost", { count: lost })}` : found;
}
