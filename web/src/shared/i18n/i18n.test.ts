import { describe, expect, it } from "vitest";
import { formatAge, locale, t } from ".";

describe("the words", () => {
  it("are found by area and name, with parameters in their places", () => {
    expect(t("editor.signed_by", { at: "noon", name: "Rea" })).toBe("Signed noon by Rea");
    expect(t("no.such_key")).toBe("no.such_key");
  });

  it("take the form that a count asks for", async () => {
    expect(t("worklist.count", { count: 1 })).toBe("1 report");
    expect(t("worklist.count", { count: 2 })).toBe("2 reports");
    await locale.set("en-GB");
    expect(t("worklist.count", { count: 0 })).toBe("0 reports");
  });

  it("write numbers as the language does", async () => {
    await locale.set("de-DE");
    expect(t("editor.cooling", { seconds: 12345 })).toContain("12.345");
    await locale.set("xx");
    expect(locale.current).toBe("en-US");
  });

  it("write ages for people, not as DICOM does, and leave what is none", () => {
    expect(formatAge("035Y", "en-US")).toBe("35y");
    expect(formatAge("018M", "de-DE")).toBe("18 M");
    expect([formatAge("about 35"), formatAge(undefined)]).toEqual(["about 35", ""]);
  });
});
