import { describe, expect, it } from "vitest";
import { formatTagDate } from "../../shared/i18n";
import { personName } from "./words";

describe("names and dates of orders", () => {
  it.each([
    ["DOE^JANE^M", "DOE, JANE M"],
    ["DOE", "DOE"],
    ["DOE^^", "DOE"],
    ["Jane Doe", "Jane Doe"],
    [undefined, ""],
  ])("%s reads %s", (given, shown) => expect(personName(given)).toBe(shown));

  it.each([
    ["20260131", "Jan 31, 2026"],
    ["2026-01-31", "Jan 31, 2026"],
    ["20260131120000", "Jan 31, 2026"],
    ["20260231", "20260231"],
    ["yesterday", "yesterday"],
    [undefined, ""],
  ])("%s reads %s", (given, shown) => expect(formatTagDate(given, "en-US")).toBe(shown));
});
