// @vitest-environment node
import { expect, it } from "vitest";
import { comments, foldAt, foldsOf } from "./folding";

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
const folded = (line: number): string | null => {
  const range = foldAt(FILE, line - 1);
  return range && FILE.slice(range.from, range.to);
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
  expect(comments(FILE).map(({ from }) => FILE.slice(0, from))).toEqual(["# One definition"]);
});

it("folds everything at once, outermost keys only", () => {
  const starts = foldsOf(FILE).map(({ from }) => FILE.slice(0, from).split("\n").at(-1));
  expect(starts).toEqual(["# One definition", "accept:", "include:"]);
});
