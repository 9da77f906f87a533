// Shadow runs: the answers of their endpoints, and what their differences mean in words.
import type { BackgroundJob } from "../../data/api-types";
import { hasText, t } from "../../texts";
import { groupedNumber } from "../../ui/number";
import type { Tone } from "../../ui/states";

export interface Survey {
  list: "messages" | "deliveries";
  connections: string[];
  count: number;
  /** False: at least `count`. */
  exact: boolean;
  before: string;
  after: string;
}
export interface Run {
  job: BackgroundJob;
  before: string;
  after: string;
  days: number;
  connections: string[];
  total: number;
}
export interface ShadowPage {
  survey: Survey | null;
  /** Why there can be no run. */
  why_not: string;
  /** The newest one first. */
  runs: Run[];
}
/** A changed outcome, such as `accepted_to_refused`, or a value that differs. */
export interface FieldDifference {
  field: string;
  /** Of a field of HL7: its name in the standard. */
  name: string;
  kind: "outcome" | "value";
  count: number;
  ids: number[];
}
export interface Result {
  compared: number;
  differ: number;
  total: number;
  estimate: { share: number; margin: number };
  classes: Readonly<Record<string, number>>;
  fields: FieldDifference[];
}
export interface Value {
  place: string;
  target: string;
  name: string;
  before: string;
  after: string;
}

/** What a job has found so far; null before its first result. */
export const resultOf = ({ result }: BackgroundJob): Result | null =>
  "compared" in result ? (result as unknown as Result) : null;

const GOOD = ["accepted", "sent"];
const parts = (change: string): [string, string] => {
  const [was = "", now = ""] = change.split("_to_");
  return [was, now];
};

export function toneOfDifference({ kind, field }: FieldDifference): Tone {
  if (kind === "value") return "neutral";
  const [was, now] = parts(field);
  if (GOOD.includes(was)) return "red";
  return GOOD.includes(now) ? "ok" : "amber";
}

/** "Refused now", "Accession", "Metadata ReadingRoom", "OBX-5 Observation Value". */
export function wordsOf({ kind, field, name }: Pick<FieldDifference, "kind" | "field" | "name">) {
  if (kind === "outcome") {
    const [was, now] = parts(field);
    const outcome = (one: string) => t(`shadow.outcome.${one}`);
    return GOOD.includes(was)
      ? t("shadow.now", { now: outcome(now) })
      : t("shadow.changed", { was: outcome(was), now: outcome(now) });
  }
  return targetWords(field, name);
}

export function targetWords(target: string, name = ""): string {
  if (name) return `${target} ${name}`;
  const [prefix, ...rest] = target.split(":");
  const keys = [target.replaceAll(":", "_"), prefix].map((one) => `shadow.target.${one}`);
  const key = keys.find(hasText);
  return key ? t(key, { name: rest.join(":") }) : target;
}

const LEAST = 0.001;
/** A share of 0 to 1 in percent: "0.8 %", "< 0.1 %". */
export function percent(share: number): string {
  const value = 100 * share;
  if (share > 0 && share < LEAST) return "< 0.1 %";
  return `${value === 0 || value >= 10 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** The result in sentences: an estimate while the run lasts, then the counts. */
export function sentences(result: Result, list: string, isOpen: boolean): string[] {
  const { compared, differ, total, estimate } = result;
  const texts = {
    compared: groupedNumber(compared),
    total: groupedNumber(total),
    share: percent(estimate.share),
    margin: percent(Math.max(estimate.margin, LEAST)),
    differ: groupedNumber(differ),
  };
  const what = list === "deliveries" ? "result" : "message";
  if (compared === 0) return [t(isOpen ? "shadow.begins" : `shadow.nothing_${what}`)];
  const isWhole = !isOpen && compared >= total;
  const found = isWhole
    ? t(`shadow.found_${what}`, { ...texts, count: differ })
    : t(differ === 0 ? `shadow.none_yet_${what}` : `shadow.estimate_${what}`, texts);
  const lost = Object.entries(result.classes)
    .filter(([change]) => GOOD.includes(parts(change)[0]))
    .map(([change, count]) => t(`shadow.lost.${parts(change)[1]}`, { count }));
  const none = differ > 0 && lost.length === 0 ? [t(`shadow.none_lost_${what}`)] : [];
  return [found, ...lost, ...none];
}
