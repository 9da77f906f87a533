// The steps of a message or a delivery for the timeline.
import type { Step as Told } from "../../data/api-types";
import { href } from "../../frame/routes";
import { t } from "../../texts";
import { durationText } from "../../ui/time";
import type { Step } from "../../ui/timeline";

/** `page` and `id` are the item of the page, to which no step needs a link. */
export function stepsOf(timeline: readonly Told[], page: string, id: number): Step[] {
  return timeline.map((step, at) => ({
    id: String(at),
    at: step.at,
    lane: step.lane,
    text: step.count > 1 ? t("item.times", { text: step.text, count: step.count }) : step.text,
    detail: [
      step.detail,
      step.took === null ? "" : t("item.after", { time: durationText(step.took) }),
    ]
      .filter(Boolean)
      .join(" · "),
    tone: (step.tone || undefined) as Step["tone"],
    href:
      step.link && !(step.link.page === page && step.link.id === id)
        ? href(step.link.page, { id: step.link.id })
        : undefined,
  }));
}
