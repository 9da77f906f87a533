// @vitest-environment node
import { expect, it } from "vitest";
import { localTime, momentOf } from "./moments";

const at = (text: string) => Date.parse(text);
const BERLIN = "Europe/Berlin";

it.each([
  ["today", "2026-11-28T23:00:00Z"],
  ["yesterday", "2026-11-27T23:00:00Z"],
  ["monday", "2026-11-22T23:00:00Z"], // the 29th is a Sunday
  ["24h", "2026-11-28T12:00:00Z"],
  ["2026-11-29T08:15", "2026-11-29T07:15:00Z"],
  ["1764331200000", "2025-11-28T12:00:00Z"],
])("%s begins in the zone of the page", (value, expected) => {
  expect(momentOf(value, BERLIN, at("2026-11-29T12:00:00Z"))).toBe(at(expected));
});

it("a day begins at midnight of its own offset", () => {
  // In the night of the 29th of March the clock goes forward, in that of the 25th of October back.
  expect(momentOf("today", BERLIN, at("2026-03-29T12:00:00Z"))).toBe(at("2026-03-28T23:00:00Z"));
  expect(momentOf("today", BERLIN, at("2026-10-25T12:00:00Z"))).toBe(at("2026-10-24T22:00:00Z"));
});

it.each(["Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "UTC"])(
  "a moment and its local time in %s are the same",
  (zone) => {
    const moment = at("2026-07-14T21:37:00Z");
    expect(momentOf(localTime(moment, zone), zone, 0)).toBe(moment);
  },
);
