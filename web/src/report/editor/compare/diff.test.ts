// @vitest-environment node
import { describe, expect, it } from "vitest";
import { diffLines, diffWords, type Piece } from "./diff";

const side = (pieces: readonly Piece[], left: "added" | "removed") =>
  pieces
    .filter((piece) => piece.kind !== left)
    .map((piece) => piece.text)
    .join("");

describe("the difference of two texts", () => {
  it("compares words and complete numbers", () => {
    expect(diffWords("Nodule of 4.5 mm.", "Nodule of 6 mm.")).toEqual([
      { kind: "same", text: "Nodule of " },
      { kind: "removed", text: "4.5" },
      { kind: "added", text: "6" },
      { kind: "same", text: " mm." },
    ]);
  });

  it("keeps both texts completely", () => {
    let seed = 7;
    const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
    const words = ["left", "right", " ", "4", ".", "肺", "\n"];
    const make = () => Array.from({ length: random(40) }, () => words[random(7)]).join("");
    for (let round = 0; round < 300; round += 1) {
      const [before, after] = [make(), make()];
      const pieces = diffWords(before, after);
      expect(side(pieces, "added")).toBe(before);
      expect(side(pieces, "removed")).toBe(after);
    }
  });

  it("finds the fewest edits of a known pair", () => {
    // The example of Myers' paper with five edits; each letter is a separate word.
    const pieces = diffWords("甲乙丙甲乙乙甲", "丙乙甲乙甲丙");
    const changed = pieces.filter((piece) => piece.kind !== "same").map((piece) => piece.text);
    expect(changed.join("")).toHaveLength(5);
    expect(diffWords("abc", "abc")).toEqual([{ kind: "same", text: "abc" }]);
    expect(diffWords("", "")).toEqual([]);
  });

  it("aligns lines side by side, with gaps for missing lines", () => {
    const pairs = diffLines(
      ["Lungs clear.", "Heart normal."],
      ["Lungs clear.", "New.", "Heart big."],
    );
    expect(pairs).toHaveLength(3);
    expect(pairs[0]?.before).toEqual(pairs[0]?.after);
    const changed = pairs.find((pair) => pair.before?.some((piece) => piece.kind === "removed"));
    expect(changed?.after?.map((piece) => piece.text).join("")).toBe("Heart big.");
    expect(pairs.map((pair) => [pair.before === null, pair.after === null])).toContainEqual([
      true,
      false,
    ]);
  });
});
