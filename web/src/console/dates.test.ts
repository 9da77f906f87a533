// @vitest-environment node
// A duration is written with its two largest units.
import { expect, test } from "vitest";
import { parseTimeField, formatDuration, formatTime } from "./dates";

test.each([
  [-5, "0 s"],
  [8_400, "8 s"],
  [61_000, "1 min"],
  [3 * 3_600_000 + 125_000, "3 h 2 min"],
  [2 * 86_400_000 + 5 * 3_600_000, "2 d 5 h"],
])("%i ms last %s", (milliseconds, words) => {
  expect(formatDuration(milliseconds)).toBe(words);
});

test("an empty time is written as an empty text", () => {
  expect(formatTime(null)).toBe("");
  expect(parseTimeField("")).toBeNull();
});
