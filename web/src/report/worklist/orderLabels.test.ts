// @vitest-environment node
import { describe, expect, it } from "vitest";
import { formatDuration, formatName, formatTagDate } from "../../shared/i18n";
import { priorityOf, waitsSince } from "./orderLabels";

describe("names and dates of orders", () => {
  it.each([
    ["DOE^JANE^M", "DOE, JANE M"],
    ["DOE", "DOE"],
    ["DOE^^", "DOE"],
    ["Jane Doe", "Jane Doe"],
    [undefined, ""],
    ["DOE^JANE^M^DR^JR", "DOE, DR JANE M, JR"],
    ["DOE^JANE^M^JR^DR", "DOE, DR JANE M, JR"],
    ["DOE^JANE^^^MD", "DOE, JANE, MD"],
    ["VAN DER BERG&VAN DER&BERG^PIET", "VAN DER BERG, PIET"],
    ["^^^", ""],
    ["=", ""],
  ])("%s reads %s", (given, shown) => expect(formatName(given)).toBe(shown));

  it.each([
    ["en-US", "Yamada, Tarou (山田 太郎)"],
    ["de-DE", "Yamada, Tarou (山田 太郎)"],
    ["ja-JP", "山田 太郎 (Yamada, Tarou)"],
    ["zh-Hant", "山田 太郎 (Yamada, Tarou)"],
  ])("has the group of %s first", (language, shown) =>
    expect(formatName("Yamada^Tarou=山田^太郎=やまだ^たろう", language)).toBe(shown),
  );

  it.each([
    ["ko-KR", "홍 길동 (洪 吉洞)"],
    ["zh-CN", "洪 吉洞 (Hong, Gildong)"],
    ["fr-FR", "Hong, Gildong (洪 吉洞)"],
  ])("has a Korean name in the script of %s", (language, shown) =>
    expect(formatName("Hong^Gildong=洪^吉洞=홍^길동", language)).toBe(shown),
  );

  it.each([
    ["20260131", "Jan 31, 2026"],
    ["2026-01-31", "Jan 31, 2026"],
    ["20260131120000", "Jan 31, 2026"],
    ["20260231", "20260231"],
    ["yesterday", "yesterday"],
    [undefined, ""],
  ])("%s reads %s", (given, shown) => expect(formatTagDate(given, "en-US")).toBe(shown));
});

describe("the priority of an order", () => {
  it.each([
    ["Ordered", "S", "STAT"],
    ["Draft", "s", "STAT"],
    ["Preliminary", "A", "ASAP"],
    ["Ordered", "T", "T"],
    ["Ordered", "R", ""],
    ["Ordered", null, ""],
    ["Ordered", undefined, ""],
    ["Final", "S", ""],
  ] as const)("%s with priority %s shows '%s'", (status, priority, shown) => {
    expect(priorityOf(priority === undefined ? { status } : { status, priority })).toBe(shown);
  });

  it("waits from the arrival of the order until the signature", () => {
    const row = { status: "Ordered", orderedAt: "2026-01-31T08:00:00Z", createdAt: 5 } as const;
    expect(waitsSince(row)).toBe(Date.UTC(2026, 0, 31, 8));
    expect(waitsSince({ status: "Draft", createdAt: 5 })).toBe(5);
    expect(waitsSince({ ...row, status: "Addendum" })).toBeNull();
  });

  it.each([
    [0, "0m"],
    [59_000, "0m"],
    [5 * 60_000, "5m"],
    [125 * 60_000, "2h 5m"],
    [120 * 60_000, "2h"],
    [(49 * 60 + 7) * 60_000, "2d 1h"],
    [-1, "0m"],
  ])("%d ms read %s", (ms, shown) => expect(formatDuration(ms, "en-US")).toBe(shown));
});
