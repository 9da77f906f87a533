import { describe, expect, it } from "vitest";
import { ageBetween, CODES, formatAge, formatCountdown, locale, t } from ".";

describe("the texts", () => {
  it("are found by area and name, with parameters in their places", () => {
    expect(t("editor.signed_by", { at: "noon", name: "Rea" })).toBe("Signed noon by Rea");
    expect(t("no.such_key")).toBe("no.such_key");
  });

  it("have the plural form of a count", async () => {
    expect(t("worklist.count", { count: 1 })).toBe("1 report");
    expect(t("worklist.count", { count: 2 })).toBe("2 reports");
    await locale.set("en-GB");
    expect(t("worklist.count", { count: 0 })).toBe("0 reports");
  });

  it("have the number format of the language", async () => {
    await locale.set("de-DE");
    expect(t("embedding.ending_idle", { seconds: 12345 })).toContain("12.345");
    await locale.set("xx");
    expect(locale.current).toBe("en-US");
  });

  it("have readable ages, and keep a text that is no age", () => {
    expect(formatAge("035Y", "en-US")).toBe("35y");
    expect(formatAge("018M", "de-DE")).toBe("18\u00a0Mon.");
    expect(formatAge("065Y", "ja-JP")).toBe("65歳");
    expect(formatAge("065Y", "zh-Hant")).toBe("65歲");
    expect(formatAge("065Y", "zh-CN")).toBe("65岁");
    expect(formatAge("005D", "ko-KR")).toBe("5일");
    expect(formatAge("065Y", "fr-FR")).toBe("65\u00a0ans");
    for (const code of CODES.filter((code) => !code.startsWith("en"))) {
      for (const age of ["065Y", "007M", "003W", "012D"]) {
        expect([code, formatAge(age, code)]).not.toEqual([code, formatAge(age, "en-US")]);
      }
    }
    expect([formatAge("about 35"), formatAge(undefined)]).toEqual(["about 35", ""]);
  });

  it.each([
    ["19800229", "20240228", "043Y"],
    ["1980-02-29", "20240229101500", "044Y"],
    ["20220510", "20240509", "023M"],
    ["20220510", "20240510", "002Y"],
    ["20240131", "20240429", "012W"],
    ["20240101", "20240105", "004D"],
    ["20240105", "20240105", "000D"],
    ["20240106", "20240105", ""],
    ["1980", "20240105", ""],
    ["19801301", "20240105", ""],
    ["", "20240105", ""],
    ["18000101", "20240105", ""],
  ])("compute the age of %s on %s", (birth, day, age) => {
    expect(ageBetween(birth, day)).toBe(age);
  });

  it("count down in minutes and seconds", () => {
    expect([0, 45, 60, 605, 3725].map(formatCountdown)).toEqual([
      "0:00",
      "0:45",
      "1:00",
      "10:05",
      "1:02:05",
    ]);
  });
});
