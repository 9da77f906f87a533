// What a time chart draws, and the same as words and as a table.
import { clockTime, exactTime, fullTime } from "./time";
import { groupedNumber } from "./number";
import { durationText } from "./time";

export type Values = readonly (number | null)[];
export interface ChartSeries {
  name: string;
  /** The token of its colour, such as "info" or "violet". */
  tone: "info" | "teal" | "neutral" | "amber" | "red" | "accent" | "violet" | "text-3";
  points: Values;
  dash?: boolean;
  /** A filled area, stacked on the areas before it. */
  area?: boolean;
  /** Behind the name in the legend, such as the sum. */
  note?: string;
}
export type ChartUnit = "count" | "ms";

/** Each area on top of those before it. */
export function stacked(series: readonly ChartSeries[]): (number | null)[][] {
  let below: number[] = [];
  return series.map(({ points, area }) => {
    if (!area) return [...points];
    const sum = points.map((value, index) => (value ?? 0) + (below[index] ?? 0));
    below = sum;
    return points.map((value, index) => (value === null ? null : (sum[index] ?? null)));
  });
}

export const valueText = (value: number | null | undefined, unit: ChartUnit): string =>
  value === null || value === undefined
    ? "–"
    : unit === "ms"
      ? durationText(value)
      : groupedNumber(value < 10 ? Math.round(10 * value) / 10 : Math.round(value));

const WHOLE: readonly number[] = Array.from({ length: 13 }, (_, power) => 10 ** power).flatMap(
  (unit) => [unit, 2 * unit, 5 * unit],
);
const SPANS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000],
  ...[2, 5, 10, 20, 30, 60, 120, 360, 720, 1440].map((minutes) => 60_000 * minutes),
  ...[2, 5, 10, 20, 50, 100].map((days) => 86_400_000 * days),
];
/** The distances that two labels of the value axis may have: whole numbers, or usual spans in ms. */
export const increments = (unit: ChartUnit): number[] => [...(unit === "ms" ? SPANS : WHOLE)];

/** "19:30: applied 41, parked 2": what a reader hears at one point. */
export function pointText(
  series: readonly ChartSeries[],
  at: number,
  index: number,
  unit: ChartUnit,
  zone: string,
): string {
  const values = series.map(({ name, points }) => `${name} ${valueText(points[index], unit)}`);
  return `${exactTime(at, at, zone).replace(clockTime(at, zone), clockTime(at, zone).slice(0, 5))}: ${values.join(", ")}`;
}

/** One axis for a range far apart: p99 above twenty times p50 is drawn in powers of ten. */
export function needsLog(series: readonly ChartSeries[]): boolean {
  const peak = (points: Values) => Math.max(0, ...points.map((value) => value ?? 0));
  const [low, high] = [series[0], series.at(-1)];
  return (
    series.length > 1 &&
    low !== undefined &&
    high !== undefined &&
    !low.area &&
    peak(high.points) > 20 * Math.max(1, peak(low.points))
  );
}

/** The label of a point of the time axis: "19:30", and the day at midnight or if the step is a day. */
export function tickText(at: number, step: number, zone: string): string {
  const clock = clockTime(at, zone).slice(0, 5);
  if (step < DAY_MS && clock !== "00:00") return clock;
  return exactTime(at, at, zone).replace(/ \S+$/, "");
}
const DAY_MS = 86_400_000;

/** A colour on a ground, opaque, so that stacked areas do not mix. */
export function mixed(color: string, ground: string, share: number): string {
  const parts = (text: string) =>
    /^#(..)(..)(..)/
      .exec(text)
      ?.slice(1)
      .map((part) => Number.parseInt(part, 16));
  const [over, under] = [parts(color), parts(ground)];
  if (!over || !under) return color;
  const sum = over.map((part, index) =>
    Math.round(share * part + (1 - share) * (under[index] ?? 0)),
  );
  return `rgb(${sum.join(" ")})`;
}

/** "Sat 28 Nov 19:30": the time of the point under the cursor. */
export const tipTime = (at: number, zone: string): string =>
  fullTime(at, zone)
    .split(" ")
    .slice(0, 5)
    .join(" ")
    .replace(/ \d{4} /, " ")
    .slice(0, -7);
