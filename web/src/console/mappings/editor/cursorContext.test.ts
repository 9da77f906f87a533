// @vitest-environment node
import { describe, expect, it } from "vitest";
import { contextAt } from "./cursorContext";

/** Returns the context at the position of `|` in a text. */
function at(text: string): [string, string, string] {
  const position = text.indexOf("|");
  const found = contextAt(text.replace("|", ""), position);
  expect(found.from).toBe(position - found.word.length);
  return [found.path.join("/"), found.expects, found.word];
}

describe("the cursor context", () => {
  it("recognizes a key at the top and below others", () => {
    expect(at("ta|")).toEqual(["", "key", "ta"]);
    expect(at("kind: orders\ntags:\n  Pat|")).toEqual(["tags", "key", "Pat"]);
    expect(at("tags:\n  A: PID-3\n\n  # a remark\n  |")).toEqual(["tags", "key", ""]);
    expect(at("accept:\n  x: 1\ntags:\n  A:\n    from: PID-3\n    as|")).toEqual([
      "tags/A",
      "key",
      "as",
    ]);
    expect(at("tags:\n  A: x\n|")).toEqual(["", "key", ""]);
  });

  it("recognizes a value after its key", () => {
    expect(at("kind: or|")).toEqual(["kind", "value", "or"]);
    expect(at("tags:\n  PatientSex: PID-8|")).toEqual(["tags/PatientSex", "value", "PID-8"]);
    expect(at('metadata:\n  values:\n    "A b": |')).toEqual(["metadata/values/A b", "value", ""]);
  });

  it("recognizes lists, also at the indent of their key", () => {
    expect(at("tags:\n  A:\n    from:\n      - PID-3\n      - PI|")).toEqual([
      "tags/A/from/0",
      "either",
      "PI",
    ]);
    expect(at("segments:\n- use: he|")).toEqual(["segments/0/use", "value", "he"]);
    expect(at("segments:\n  - each: orders\n    seg|")).toEqual(["segments/0", "key", "seg"]);
  });

  it("recognizes what is inside brackets", () => {
    expect(at("tags:\n  A: {fr|")).toEqual(["tags/A", "key", "fr"]);
    expect(at("tags:\n  A: {from: PID-2.1, re|")).toEqual(["tags/A", "key", "re"]);
    expect(at("tags:\n  A: {from: [PID-2.1, PI|], required: true}")).toEqual([
      "tags/A/from/1",
      "either",
      "PI",
    ]);
    expect(at("tags:\n  A: {from: |}")).toEqual(["tags/A/from", "value", ""]);
    expect(at('tags:\n  A: {from: ["PID-3[CX-5=MR].1", |')).toEqual([
      "tags/A/from/1",
      "either",
      "",
    ]);
    expect(at("accept:\n  senders:\n    - {application: A, fac|")).toEqual([
      "accept/senders/0",
      "key",
      "fac",
    ]);
    expect(at("tags:\n  A: {from: PID-3,\n      as: up|")).toEqual(["tags/A/as", "value", "up"]);
    expect(at("tags: {A: PID-3}\nme|")).toEqual(["", "key", "me"]);
  });

  it("ignores brackets in comments, quoted texts and paths", () => {
    expect(at("# a [ and a {\nta|")).toEqual(["", "key", "ta"]);
    expect(at("tags:\n  A: PID-3[CX-5=MR].1\n  B|")).toEqual(["tags", "key", "B"]);
    expect(at("tags:\n  A: '{'\n  B|")).toEqual(["tags", "key", "B"]);
  });
});
