import { expect, it } from "vitest";
import { durationText, exactTime, fullTime, relativeTime } from "./time";

const at = (text: string) => Date.parse(text);
const NOW = at("2026-11-28T18:31:28Z");
const BERLIN = "Europe/Berlin";

it.each([
  ["2026-11-28T18:31:16Z", "12 s"],
  ["2026-11-28T18:27:28Z", "4 min"],
  ["2026-11-28T15:31:00Z", "3 h"],
  ["2026-11-27T18:31:00Z", "yesterday 19:31"],
  ["2026-09-28T17:31:00Z", "28 Sep 19:31"],
  ["2025-11-28T18:31:00Z", "28 Nov 2025"],
  ["2026-11-28T18:31:40Z", "in 12 s"],
  ["2026-12-07T18:31:28Z", "7 Dec"],
])("%s is said as %s", (time, words) => {
  expect(relativeTime(at(time), NOW, BERLIN)).toBe(words);
});

it("a day begins in the zone of the site, also on the day when the clock changes", () => {
  const change = at("2026-10-25T00:30:00Z"); // 02:30 summer time
  expect(exactTime(change, NOW, BERLIN)).toBe("25 Oct 02:30:00");
  expect(exactTime(change + 3_600_000, NOW, BERLIN)).toBe("25 Oct 02:30:00");
  expect(relativeTime(change, change + 20 * 3_600_000, BERLIN)).toBe("20 h");
  expect(relativeTime(change - 3 * 3_600_000, change + 3_600_000, BERLIN)).toBe("yesterday 23:30");
});

it("the exact time names both zones", () => {
  expect(fullTime(NOW + 412, BERLIN, "SITE1")).toBe(
    "Sat 28 Nov 2026 19:31:28.412 CET (SITE1) · 18:31:28.412 UTC",
  );
  expect(fullTime(NOW, "UTC")).toBe("Sat 28 Nov 2026 18:31:28.000 UTC");
  expect(fullTime(NOW, "No/Such")).toContain("UTC");
});

it.each([
  [8, "8 ms"],
  [2400, "2.4 s"],
  [5000, "5 s"],
  [252_000, "4 min 12 s"],
  [10_920_000, "3 h 2 min"],
  [792_000_000, "9 d 4 h"],
  [-5, "0 ms"],
])("%d ms are %s", (ms, words) => {
  expect(durationText(ms)).toBe(words);
});
