// The changes of a draft in words.
import { expect, it } from "vitest";
import { fileChanges, ruleChanges, type WordedRule } from "./changes";

const rule = (target: string, words: string, ...within: string[]): WordedRule => ({
  target,
  words,
  within,
});
const outline = (...rules: WordedRule[]) => ({ kind: "orders", rules });

it("names added, changed and removed rules, and leaves out those that stay", () => {
  const before = outline(
    rule("tag:PatientMRN", "reads PID-3.1; required"),
    rule("tag:PatientName", "reads PID-5"),
    rule("meta:Price", "reads ZRM-4.1"),
  );
  const after = outline(
    rule("tag:PatientMRN", "reads PID-2.1, else PID-3.1; required"),
    rule("tag:PatientName", "reads PID-5"),
    rule("meta:ReadingRoom", "reads ZRM-2.1"),
  );
  expect(ruleChanges(before, after)).toEqual([
    {
      name: "PatientMRN",
      kind: "changed",
      words: "reads PID-2.1, else PID-3.1; required",
      before: "reads PID-3.1; required",
    },
    { name: "Metadata.ReadingRoom", kind: "added", words: "reads ZRM-2.1", before: "" },
    { name: "Metadata.Price", kind: "removed", words: "reads ZRM-4.1", before: "" },
  ]);
});

it("tells rules of one target apart", () => {
  const two = [rule("order:control", "is NW"), rule("order:control", "is CA")] as const;
  const changes = ruleChanges(outline(...two), outline(two[0], rule("order:control", "is OC")));
  expect(changes.map(({ words, before }) => [words, before])).toEqual([["is OC", "is CA"]]);
});

it("counts the lines that differ in each file", () => {
  const before = { "a.yaml": "one\ntwo\n", "b.yaml": "same\n" };
  const after = { "a.yaml": "one\nthree\nfour\n", "c.csv": "code,value\n" };
  expect(fileChanges(before, after)).toEqual([
    { file: "a.yaml", added: 2, removed: 1 },
    { file: "c.csv", added: 1, removed: 0 },
  ]);
});
