import { describe, expect, it } from "vitest";
import { canonical, fromText, plainText, type ReportDocument } from "./document";

const paragraph = (...content: unknown[]) =>
  ({ type: "doc", content: [{ type: "paragraph", content }] }) as ReportDocument;

describe("a document", () => {
  it("has the plain text of the engine", () => {
    const document: ReportDocument = {
      type: "doc",
      content: [
        { type: "section", title: "Findings" },
        {
          type: "paragraph",
          content: [
            { type: "text", text: "Nodule " },
            { type: "field", label: "size", value: "" },
            { type: "field", label: "unit", value: "mm" },
          ],
        },
        { type: "list", ordered: true, items: [[{ type: "text", text: "one" }], []] },
      ],
    };
    expect(plainText(document)).toBe("Findings\nNodule [size]mm\n1. one\n2. ");
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
