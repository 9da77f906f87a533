import { expect, it } from "vitest";
import type { Node, Source, Target, TraceEvent } from "../data/api-types";
import { groupsOf, linksOf, marksOf } from "./links";
import { isFilled, leavesOf, partsOf, Places, rawSegments } from "./places";

const RAW = "PID|1||M1^^^HOSP~N2||DOE^JANE\rZZZ|a";
function node(place: string, text: string, children: Node[] = [], from = 0): Node {
  const start = text === "" ? from : RAW.indexOf(text, from);
  return {
    place,
    name: place,
    type: "",
    text,
    meaning: "",
    start,
    end: start + text.length,
    children,
  };
}
const whole = (place: string, start: number, end: number, children: Node[]): Node => ({
  ...node(place, ""),
  start,
  end,
  children,
});
const TREE: Node[] = [
  whole("PID", 0, 29, [
    node("PID-1", "1"),
    node("PID-2", "", [], 6),
    node("PID-3", "M1^^^HOSP~N2", [
      node("PID-3[1]", "M1^^^HOSP", [node("PID-3[1].1", "M1"), node("PID-3[1].4", "HOSP")]),
      node("PID-3[2]", "N2"),
    ]),
    node("PID-5", "DOE^JANE", [node("PID-5.1", "DOE"), node("PID-5.2", "JANE")]),
  ]),
  whole("ZZZ", 30, 35, [node("ZZZ-1", "a", [], 30)]),
];
const places = new Places(TREE);

it("the parts of the raw text are the whole text, and each part of a place is its value", () => {
  const segments = rawSegments(RAW, TREE);
  expect(segments.map((one) => one.parts.map((part) => part.text).join(""))).toEqual(
    RAW.split("\r"),
  );
  for (const part of segments.flatMap((one) => one.parts))
    if (part.place) expect(part.text).toBe(places.node(part.place)?.text);
});

it("a place leads to its node, or to the smallest node around it", () => {
  expect(places.nearest("PID-5.1")).toBe("PID-5.1");
  expect(places.nearest("PID-5.1.2")).toBe("PID-5.1");
  expect(places.nearest("PID-3[2].1")).toBe("PID-3[2]");
  expect(places.nearest("PID-44")).toBe("PID");
  expect(places.nearest("PV1-2")).toBeNull();
  expect(places.around("PID-3[1].4")).toEqual(["PID-3[1]", "PID-3", "PID"]);
  expect(places.touch("PID-3[1].4", "PID-3")).toBe(true);
  expect(places.touch("PID-3[1].4", "PID-3[2]")).toBe(false);
});

it("empty fields are left out of the tree, and shown on demand", () => {
  const fields = (withEmpty: boolean) =>
    partsOf(TREE, withEmpty)[0]?.children.map((part) => part.id);
  expect(fields(false)).toEqual(["PID-1", "PID-3", "PID-5"]);
  expect(fields(true)).toContain("PID-2");
  expect(TREE.flatMap(leavesOf).filter(isFilled)).toHaveLength(7);
});

const source = (text: string, outcome: Source["outcome"], place: string, raw: string): Source => ({
  kind: "path",
  text,
  file: "orders.yaml",
  line: 1,
  outcome,
  places: [place],
  raw,
  value: raw,
  note: "",
  steps: [],
});
const target = (name: string, sources: Source[]): Target => ({
  target: name,
  value: "x",
  present: true,
  explained: true,
  file: "orders.yaml",
  line: 1,
  sources,
  steps: [],
});
const EVENT: TraceEvent = {
  action: "create",
  place: "PID",
  note: "",
  site: "SITE1",
  mrn: "M1",
  accession: "A1",
  row: null,
  links: [],
  targets: [
    target("meta:Name", [source("PID-5", "used", "PID-5", "DOE^JANE")]),
    target("tag:PatientMRN", [
      source("PID-2", "empty", "PID-2", ""),
      source("PID-3[4=HOSP].1", "used", "PID-3[2].1", "N2"),
      source("PID-3.1", "an earlier source has a value", "PID-3[1].1", "M1"),
    ]),
  ],
};

it("a value has lines to the place that gave it and to the places that lost, not to empty ones", () => {
  expect(linksOf(EVENT, places)).toEqual([
    { target: "meta:Name", place: "PID-5", isUsed: true },
    { target: "tag:PatientMRN", place: "PID-3[2]", isUsed: true },
    { target: "tag:PatientMRN", place: "PID-3[1].1", isUsed: false },
  ]);
});

it("a value that no rule reads is marked, and a component of a used field is used", () => {
  const marks = marksOf(TREE, EVENT, linksOf(EVENT, places), places);
  expect(marks.get("PID-5.1")).toBe("used");
  expect(marks.get("PID-3[1].1")).toBe("considered");
  expect(marks.get("ZZZ-1")).toBe("unread");
  expect(marks.get("PID-2")).toBeUndefined();
});

it("the component that chooses a repetition is used", () => {
  const chosen = target("tag:PatientMRN", [
    source("PID-3[CX-4=HOSP].1", "used", "PID-3[1].1", "M1"),
  ]);
  const event = { ...EVENT, targets: [chosen] };
  expect(marksOf(TREE, event, linksOf(event, places), places).get("PID-3[1].4")).toBe("used");
});

it("tags come before Metadata", () => {
  expect(groupsOf(EVENT.targets).map((group) => group.kind)).toEqual(["tag", "meta"]);
});
