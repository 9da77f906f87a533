import { expect, it } from "vitest";
import type { Specification, SpecificationChange } from "../../data/api-types";
import { sectionsOf, type TableBlock } from "./specification";

const field = (place: string, content: string) => ({
  ...{ place, name: place, type: "ST", usage: "RE" as const, cardinality: "0..1" },
  ...{ content, condition: "", codes: "", example: "" },
});
const segment = (name: string, ...fields: ReturnType<typeof field>[]) => ({
  ...{ name, title: "", cardinality: "1..1", note: "", within: "", fields },
});
function specification(changes: SpecificationChange[] | null): Specification {
  return {
    kind: "listener",
    name: "ris",
    definitions: [],
    transport: [{ name: "TLS", value: "1.3" }],
    messages: [],
    segments: [segment("PID", field("PID-3", "PatientMRN"), field("PID-26", "Race"))],
    codes: [{ name: "sex", rows: [{ code: "F", value: "F", remark: "" }], note: "" }],
    acknowledgments: [],
    control: [{ control: "NW", status: "", action: "create" }],
    replies: [],
    examples: [],
    versions: [],
    changes,
  };
}
const tables = (changes: SpecificationChange[] | null, id: string): TableBlock[] =>
  (sectionsOf(specification(changes)).find((section) => section.id === id)?.blocks ?? []).filter(
    (block) => block.kind === "table",
  );
const change = (
  place: string,
  kind: SpecificationChange["kind"],
  fact = "",
  before = "old",
  after = "new",
): SpecificationChange => ({ place, fact, before, after, kind });

it("has only sections with content, and no marks without a comparison", () => {
  const all = sectionsOf(specification(null));
  expect(all.map(({ id }) => id)).toEqual(["transport", "segments", "codes", "control"]);
  const rows = all
    .flatMap(({ blocks }) => blocks)
    .flatMap((one) => ("rows" in one ? one.rows : []));
  expect(rows.every(({ mark, cells }) => mark === "same" && cells.every((c) => !c.before))).toBe(
    true,
  );
});

it("marks what is new, changed and gone in its place", () => {
  const found = [
    change("PID-26", "added"),
    change("PID-10", "removed"),
    change("PID-3", "changed", "content", "MRN"),
    change("ZDS-1", "removed"),
    change("transport: TLS", "changed", "value", "1.2"),
    change("codes sex: W", "removed"),
    change("codes modality: CT", "removed"),
    change("order control CA/DC", "removed"),
  ];
  const [pid, gone] = tables(found, "segments");
  expect(pid?.rows.map(({ mark, cells }) => [mark, cells[0]?.text])).toEqual([
    ["same", "PID-3"],
    ["added", "PID-26"],
    ["removed", "PID-10"],
  ]);
  expect(pid?.rows[0]?.cells[5]).toEqual({ text: "PatientMRN", before: "MRN" });
  expect(gone?.rows.map(({ cells }) => cells[0]?.text)).toEqual(["ZDS-1"]);
  expect(tables(found, "transport")[0]?.rows[0]?.cells[1]?.before).toBe("1.2");
  const codes = tables(found, "codes").map(({ rows }) => rows.map(({ cells }) => cells[0]?.text));
  expect(codes).toEqual([["F", "W"], ["modality: CT"]]);
  expect(tables(found, "control")[0]?.rows[1]?.cells.map(({ text }) => text)).toEqual([
    ...["CA", "DC", "old"],
  ]);
});
