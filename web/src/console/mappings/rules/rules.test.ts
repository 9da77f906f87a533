import { expect, it } from "vitest";
import type { Target } from "../../data/api-types";
import { codesOf, entriesOf, pathsOf, sourceOf, testsOf, treeOf, whenOf, type Tree } from "./rules";

const INBOUND: Tree[] = [
  "PID-3.1",
  { first: "PID-3.1" },
  { from: "PID-8", as: "upper", when: { "PID-8": ["M", "F"] } },
  { const: "HL7" },
];
const WRITTEN: Tree[] = [
  "$site",
  ["A", "", "$site"],
  { echo: "PID-8", type: "CX" },
  { value: "$order.PatientSex", codes_back: "sex" },
  { value: ["A"], when: { $site: "X" } },
];

it("shows a source and writes it again as it was", () => {
  for (const tree of INBOUND) expect(treeOf(sourceOf(tree, false), false)).toEqual(tree);
  for (const tree of WRITTEN) expect(treeOf(sourceOf(tree, true), true)).toEqual(tree);
});

it("leaves what a form cannot say to YAML", () => {
  const join = { join: ["PID-1", "PID-2"], separator: " " };
  expect(sourceOf(join, false)).toMatchObject({
    kind: "other",
    text: "{join: [PID-1, PID-2], separator:  }",
  });
  expect(sourceOf({ from: ["PID-1", "PID-2"] }, false).kind).toBe("other");
  expect(sourceOf([{ echo: "PID-1" }], true).kind).toBe("other");
});

it("reads and writes conditions whose tests must all hold", () => {
  const conditions: Tree[] = [
    { "OBR-24": "CT" },
    { "OBR-24": ["CT", "MR"], "PID-8": { not: "F" } },
    { "IPC-1": { present: "true" }, "OBR-4": { absent: "true" } },
    { "ORC-8": { matches: "^A" } },
    { "OBR-24": { not: "CT", matches: "^." } },
  ];
  for (const when of conditions) expect(whenOf(testsOf(when) ?? [])).toEqual(when);
  expect(whenOf([])).toBeNull();
  expect(testsOf({ any: [{ "OBR-24": "CT" }] })).toBeNull();
  expect(testsOf({ not: { "OBR-24": "CT" } })).toBeNull();
  expect(testsOf({ "IPC-1": { present: "false" } })).toBeNull();
});

it("names the paths of a place: of one order, one kind of number, one repetition", () => {
  const none = () => "";
  expect(pathsOf("OBR[2]-18", none)).toEqual(["OBR-18"]);
  expect(pathsOf("PID-5.1", none)).toEqual(["PID-5.1"]);
  expect(pathsOf("PID-3[2].1", (place) => (place === "PID-3[2].5" ? "PI" : ""))).toEqual([
    "PID-3[CX-5=PI].1",
    "PID-3[2].1",
    "PID-3.1",
  ]);
  expect(pathsOf("NTE[2]-3[4]", none)).toEqual(["NTE-3[4]", "NTE-3"]);
});

it("finds the codes that were looked up, also those without an entry", () => {
  const target = {
    target: "tag:Modality",
    value: "CT",
    present: true,
    explained: true,
    file: "orders.yaml",
    line: 1,
    steps: [],
    sources: [
      {
        outcome: "not in code table",
        raw: "24",
        steps: [{ name: "codes modality", value: "" }],
        note: "",
      },
      {
        outcome: "used",
        raw: "cth",
        steps: [
          { name: "as upper", value: "CTH" },
          { name: "codes modality", value: "CT" },
        ],
        note: "",
      },
    ],
  } as unknown as Target;
  expect(codesOf(target)).toEqual([
    { table: "modality", code: "24" },
    { table: "modality", code: "CTH" },
  ]);
  const refused = { ...target, sources: [{ ...target.sources[0], steps: [] }] } as Target;
  expect(codesOf(refused, "modality")).toEqual([{ table: "modality", code: "24" }]);
});

it("reads the entries of a code table, the first one of a code", () => {
  const text = 'value,note,Code\r\nCT,"a, b",24\r\n\r\n"M ""R""",,mr\r\nXX,,24\r\n';
  expect([...entriesOf(text)].sort()).toEqual([
    ["24", "CT"],
    ["MR", 'M "R"'],
  ]);
});
