import { describe, expect, it } from "vitest";
import cases from "../../../../snapshots/plain_text.json";
import { canonical, fromText, plainText, type ReportDocument } from "./document";

const paragraph = (...content: unknown[]) =>
  ({ type: "doc", content: [{ type: "paragraph", content }] }) as ReportDocument;

describe("a document", () => {
  it.each(cases)("has the plain text of the service: $name", ({ document, text }) => {
    expect(plainText(document as ReportDocument)).toBe(text);
  });

  it("is converted from text and back, with any line ends", () => {
    expect(plainText(fromText("a\r\nb\r\rc"))).toBe("a\nb\n\nc");
    expect(fromText("")).toEqual({ type: "doc", content: [] });
  });

  it("has one canonical form for any division into runs", () => {
    const one = paragraph({ type: "text", text: "ab", marks: [] });
    const other = paragraph(
      { type: "text", text: "a" },
      { type: "text", text: "" },
      { type: "text", text: "b" },
    );
    expect(canonical(one)).toBe(canonical(other));
    expect(canonical(fromText(""))).toBe(canonical(paragraph()));
    const bold = paragraph({ type: "text", text: "ab", marks: ["bold"] });
    expect(canonical(bold)).not.toBe(canonical(one));
  });
});
