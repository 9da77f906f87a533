// The part of a series that charts show, its sums, and the week before.
import { expect, it } from "vitest";
import type { Series } from "../../data/api-types";
import { outcomeSeries, rangeOf, rangeText, timesOf, weekBefore, window } from "./outcomes";

const series: Series = {
  ...{ step: 10, from: 1000, p50: [], p99: [], oldest: [], gaps: [] },
  outcomes: { done: [1, 2, 3, 4, 5], parked: [0, 0, 1, 0, 0], accepted: [9, 9, 9, 9, 9] },
  waiting: [0, 0, 0, 0, 0],
  week_before: { outcomes: { done: [1, 1, 1, 1, 1], parked: [0, 1, 0, 0, 0] }, p50: [] },
};
const whole = window(series, null);

it("shows the whole span, or the points of a range and at least two", () => {
  expect(timesOf(series, whole)).toEqual([1000, 1010, 1020, 1030, 1040]);
  expect(timesOf(series, window(series, [1012, 1029]))).toEqual([1010, 1020, 1030]);
  expect(timesOf(series, window(series, [1_999, 2_000]))).toEqual([1030, 1040]);
  expect(timesOf(series, window(series, [0, 5]))).toEqual([1000, 1010]);
});

it("stacks the outcomes that happened, with their sums; what is accepted is counted once", () => {
  const shown = outcomeSeries("listener", series, whole);
  expect(shown.map(({ name, note }) => [name, note])).toEqual([
    ["outcome.listener_done", "15"],
    ["outcome.listener_parked", "1"],
  ]);
  const quiet = outcomeSeries("listener", { ...series, outcomes: {} }, whole);
  expect(quiet.map(({ note }) => note)).toEqual(["0"]);
});

it("adds all outcomes of the week before", () => {
  expect(weekBefore("listener", series, whole)).toEqual([1, 2, 1, 1, 1]);
  expect(weekBefore("listener", { ...series, week_before: null }, whole)).toBeUndefined();
});

it("keeps a range in the address", () => {
  expect(rangeOf(rangeText([1000.4, 2000]))).toEqual([1000, 2000]);
  for (const text of [null, "", "5", "9-1", "a-b"]) expect(rangeOf(text)).toBeNull();
});
