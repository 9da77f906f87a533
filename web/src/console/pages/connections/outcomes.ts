// The series of a connection as charts show them: outcomes, latency, queue; of a span or a part of it.
import type { ChannelKind, Series } from "../../data/api-types";
import { t } from "../../texts";
import type { ChartSeries, Values } from "../../ui/chart";
import { groupedNumber } from "../../ui/number";

export type Range = readonly [number, number];

interface Outcome {
  name: string;
  tone: ChartSeries["tone"];
  /** The state that its list is filtered by; absent: there is no such list. */
  state?: string;
}
/** What can become of a message, from the bottom of the chart to its top. */
const OUTCOMES: Readonly<Record<ChannelKind, readonly Outcome[]>> = {
  listener: [
    { name: "done", tone: "info", state: "done" },
    { name: "ignored", tone: "neutral", state: "ignored" },
    { name: "retransmit", tone: "teal" },
    { name: "parked", tone: "amber", state: "parked" },
    { name: "refused", tone: "red", state: "refused" },
  ],
  destination: [
    { name: "delivered", tone: "info", state: "done" },
    { name: "unanswered", tone: "teal" },
    { name: "not_connected", tone: "neutral" },
    { name: "parked", tone: "amber", state: "parked" },
    { name: "refused", tone: "red", state: "failed" },
  ],
};
export const SPANS = ["1h", "24h", "7d", "30d"] as const;

/** The points of a range, from the first to the last index. */
export function window(series: Series, range: Range | null): { first: number; end: number } {
  const count = series.waiting.length;
  if (!range) return { first: 0, end: count };
  const first = Math.floor((range[0] - series.from) / series.step);
  const end = Math.ceil((range[1] - series.from) / series.step) + 1;
  return { first: Math.max(0, Math.min(first, count - 2)), end: Math.min(count, Math.max(end, 2)) };
}
export const timesOf = (series: Series, { first, end }: { first: number; end: number }): number[] =>
  Array.from({ length: end - first }, (_, index) => series.from + (first + index) * series.step);

const sum = (values: Values) => values.reduce<number>((total, value) => total + (value ?? 0), 0);

/** The outcomes that happened, with their sums; the main one also if nothing happened. */
export function outcomeSeries(
  kind: ChannelKind,
  series: Series,
  { first, end }: { first: number; end: number },
): (ChartSeries & { state: string | undefined })[] {
  return OUTCOMES[kind]
    .map(({ name, tone, state }) => {
      const points = (series.outcomes[name] ?? []).slice(first, end);
      const total = sum(points);
      const label = t(`outcome.${kind}_${name}`);
      return { name: label, tone, state, points, area: true, note: groupedNumber(total), total };
    })
    .filter(({ total }, index) => index === 0 || total > 0);
}

/** All outcomes together, a week before. */
export function weekBefore(
  kind: ChannelKind,
  series: Series,
  { first, end }: { first: number; end: number },
): number[] | undefined {
  const before = series.week_before?.outcomes;
  if (!before) return undefined;
  const known = OUTCOMES[kind].map(({ name }) => (before[name] ?? []).slice(first, end));
  return Array.from({ length: end - first }, (_, index) =>
    known.reduce((total, points) => total + (points[index] ?? 0), 0),
  );
}

/** Reads "FROM-TO" of an address; null if it is none. */
export function rangeOf(text: string | null): Range | null {
  const [from, to] = (text ?? "").split("-").map(Number);
  return from && to && to > from ? [from, to] : null;
}
export const rangeText = ([from, to]: Range): string => `${Math.round(from)}-${Math.round(to)}`;
