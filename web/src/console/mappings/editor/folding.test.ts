import { Text } from "@codemirror/state";
import { expect, it } from "vitest";
import { comments, foldAt } from "./folding";

const FILE = `# One definition
# for the sender RIS.
# It reads PID-3.
kind: orders
accept:
  senders:
    - {application: RIS}

    - {application: RIX}
include:
- orders.yaml
tags: {Accession: OBR-18}
# Last.`;
const doc = Text.of(FILE.split("\n"));
const folded = (number: number): string | null => {
  const range = foldAt(doc, number);
  return range && doc.sliceString(range.from, range.to);
};

it("folds a run of comments, and below a key its indented lines and items", () => {
  expect(folded(1)).toBe("\n# for the sender RIS.\n# It reads PID-3.");
  expect(folded(2)).toBeNull();
  expect(folded(4)).toBeNull();
  expect(folded(6)).toBe("\n    - {application: RIS}\n\n    - {application: RIX}");
  expect(folded(5)?.split("\n")).toHaveLength(5);
  expect(folded(10)).toBe("\n- orders.yaml");
  expect(folded(12)).toBeNull();
  expect(folded(13)).toBeNull();
});

it("only runs of three comment lines or more are folded at first", () => {
  expect(comments(doc).map((range) => doc.lineAt(range.from).number)).toEqual([1]);
});
