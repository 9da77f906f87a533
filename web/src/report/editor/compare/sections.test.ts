import { describe, expect, it } from "vitest";
import { fromText, type ReportDocument } from "../text/document";
import type { Piece } from "./diff";
import { diffReports } from "./sections";

const read = (pieces: Piece[] | null) => pieces?.map((piece) => piece.text).join("") ?? null;
const differs = (pieces: Piece[] | null) =>
  pieces === null || pieces.some((piece) => piece.kind !== "same");
const table = (before: ReportDocument, after: ReportDocument) =>
  diffReports(before, after).map((pair) => [
    read(pair.before),
    read(pair.after),
    differs(pair.before) || differs(pair.after),
  ]);

describe("two reports side by side", () => {
  it("align sections of the same heading, regardless of case and colon", () => {
    const before = fromText("FINDINGS:\nLungs clear.\nIMPRESSION:\nNormal.");
    const after: ReportDocument = {
      type: "doc",
      content: [
        { type: "section", title: "Findings" },
        { type: "paragraph", content: [{ type: "text", text: "Lungs clear." }] },
        { type: "section", title: "Impression" },
        { type: "paragraph", content: [{ type: "text", text: "Normal." }] },
      ],
    };
    expect(table(before, after)).toEqual([
      ["FINDINGS:", "Findings", false],
      ["Lungs clear.", "Lungs clear.", false],
      ["IMPRESSION:", "Impression", false],
      ["Normal.", "Normal.", false],
    ]);
  });

  it("align sections that are missing, new or moved", () => {
    const before = fromText("Technique:\nCT.\nFindings:\nNodule.\nImpression:\nSame.");
    const after = fromText("Impression:\nSame.\nComparison:\nNone.\nFindings:\nNodule.");
    expect(table(before, after)).toEqual([
      ["Technique:", null, true],
      ["CT.", null, true],
      ["Impression:", "Impression:", false],
      ["Same.", "Same.", false],
      [null, "Comparison:", true],
      [null, "None.", true],
      ["Findings:", "Findings:", false],
      ["Nodule.", "Nodule.", false],
    ]);
  });

  it("show each line of both once", () => {
    const before = fromText("Above.\nFINDINGS\nA\nFINDINGS\nB\nEND OF REPORT\n\nLast: 4 mm.");
    const after = fromText("findings:\nA2\nOther:\nEnd of report:\nlast");
    const rows = table(before, after);
    const left = rows.map(([one]) => one).filter((row) => row !== null);
    const right = rows.map(([, other]) => other).filter((row) => row !== null);
    expect([...left].sort()).toEqual(
      ["Above.", "FINDINGS", "A", "FINDINGS", "B", "END OF REPORT", "", "Last: 4 mm."].sort(),
    );
    expect([...right].sort()).toEqual(
      ["findings:", "A2", "Other:", "End of report:", "last"].sort(),
    );
  });

  it("do not treat a sentence as a heading", () => {
    const before = fromText("Nodule measures 4 mm.\nCT and MRI:");
    const after = fromText("nodule measures 4 mm.\nCT and MRI:");
    expect(table(before, after)[0]?.[2]).toBe(true);
  });
});
