import { describe, expect, it } from "vitest";
import { locale, t } from ".";

describe("the words", () => {
  it("are found by area and name, with parameters in their places", () => {
    expect(t("editor.signed_by", { at: "noon", name: "Rea" })).toBe("Signed noon by Rea");
    expect(t("no.such_key")).toBe("no.such_key");
  });

  it("write numbers as the language does", async () => {
    await locale.set("de-DE");
    expect(t("editor.cooling", { seconds: 12345 })).toContain("12.345");
    await locale.set("xx");
    expect(locale.current).toBe("en-US");
  });
});
