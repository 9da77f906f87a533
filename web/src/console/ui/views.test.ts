import { expect, it } from "vitest";
import { increments, pointText, stacked, tickText, tipTime, valueText } from "./chart";
import { difference, folded, takenOver, withChanges } from "./difference";
import { placeOf } from "./float";
import { highlight, highlightLines } from "./highlight";
import { rowsOf, type Step } from "./timeline";

const WINDOW = { width: 1000, height: 800 };
const SIZE = { width: 200, height: 300 };

it("a float lies below its anchor, above it if there is no room, and never outside", () => {
  const anchor = (top: number, left: number) => ({
    top,
    left,
    bottom: top + 30,
    right: left + 100,
  });
  expect(placeOf(anchor(100, 50), SIZE, WINDOW, "below")).toEqual({ top: 134, left: 50 });
  expect(placeOf(anchor(700, 50), SIZE, WINDOW, "below")).toEqual({ top: 396, left: 50 });
  expect(placeOf(anchor(100, 950), SIZE, WINDOW, "below").left).toBe(792);
  expect(placeOf(anchor(100, 50), SIZE, WINDOW, "below-end").left).toBe(8);
});

it("a difference marks the words of a changed line, and folds what is the same", () => {
  const same = Array.from({ length: 12 }, (_, index) => `line ${index}`);
  const lines = difference([...same, "a b c"].join("\n"), [...same, "a x c"].join("\n"));
  const [removed, added] = lines.slice(-2);
  expect(removed?.words.filter((word) => word.changed).map((word) => word.text)).toEqual(["b"]);
  expect(added?.words.filter((word) => word.changed).map((word) => word.text)).toEqual(["x"]);
  const shown = folded(lines, 3);
  expect(shown[0]).toMatchObject({ kind: "fold" });
  expect(shown).toHaveLength(1 + 3 + 2);
});

it("one change is taken over from the earlier text, and the others stay", () => {
  const [before, after] = ["a\nb\nc\nd\n", "x\nb\nc\nd\ne\n"];
  const lines = difference(before, after);
  const changes = withChanges(lines).filter((item) => item.kind === "change");
  expect(changes.map((change) => takenOver(lines, change))).toEqual([
    "a\nb\nc\nd\ne\n",
    "x\nb\nc\nd\n",
  ]);
});

it("a difference of messages marks components, with any line ending", () => {
  const lines = difference("PID|1||A^B\r", "PID|1||A^C\r", "hl7");
  expect(lines.map((line) => line.kind)).toEqual(["removed", "added"]);
  expect(lines[1]?.words.filter((word) => word.changed).map((word) => word.text)).toEqual(["C"]);
});

it.each(["yaml", "json", "hl7", "python", "text"] as const)(
  "colours keep the text of %s",
  (language) => {
    for (const line of [
      'tags: {a: "x # y", b: 12} # end',
      "MSH|^~\\&|RIS|",
      '{"a": [1, true]}',
      "",
    ])
      expect(
        highlight(line, language)
          .map((part) => part.text)
          .join(""),
      ).toBe(line);
  },
);

it("a string of Python may span lines", () => {
  const text = [
    'def f(m):  # "',
    '    """A',
    'return "b"',
    '    """',
    "    return 'c' or None",
    '"""d"""',
    "1",
  ];
  const parts = highlightLines(text, "python");
  expect(parts.map((line) => line.map((part) => part.text).join(""))).toEqual(text);
  expect(parts.map((line) => line.map((part) => part.kind).filter(Boolean))).toEqual([
    ["keyword", "key", "comment"],
    ["string"],
    ["string"],
    ["string"],
    ["keyword", "string", "keyword", "keyword"],
    ["string"],
    ["number"],
  ]);
});

it("three equal attempts in a run are one row, and can be unfolded", () => {
  const step = (id: string, at: number, fold?: string): Step => ({
    id,
    at,
    lane: "delivery",
    text: id,
    fold,
  });
  const steps = [
    step("a", 0),
    step("b", 8, "x"),
    step("c", 20, "x"),
    step("d", 30, "x"),
    step("e", 50),
  ];
  expect(rowsOf(steps).map((row) => [row.step.id, row.after, row.folded.length])).toEqual([
    ["a", null, 1],
    ["b", 8, 3],
    ["e", 20, 1],
  ]);
  expect(rowsOf(steps, new Set(["b"]))).toHaveLength(5);
});

it("a chart stacks its areas and says each point in words", () => {
  const series = [
    { name: "applied", tone: "info" as const, area: true, points: [4, null] },
    { name: "parked", tone: "amber" as const, area: true, points: [1, 2] },
  ];
  expect(stacked(series)).toEqual([
    [4, null],
    [5, 2],
  ]);
  const at = Date.parse("2026-11-28T18:30:00Z");
  expect(pointText(series, at, 0, "count", "Europe/Berlin")).toBe(
    "28 Nov 19:30: applied 4, parked 1",
  );
  expect(tickText(at, 3_600_000, "Europe/Berlin")).toBe("19:30");
  expect(tickText(Date.parse("2026-11-28T23:00:00Z"), 3_600_000, "Europe/Berlin")).toBe("29 Nov");
});

it("labels of the value axis differ: whole numbers, and spans that are written apart", () => {
  for (const unit of ["count", "ms"] as const)
    for (const distance of increments(unit)) {
      const labels = [0, 1, 2, 3].map((place) => valueText(place * distance, unit));
      expect(new Set(labels).size, `${distance} ${unit}`).toBe(labels.length);
    }
  expect(increments("count").every((one) => Number.isInteger(one))).toBe(true);
});

it("the box at the cursor has the day and the time, and counts of a week before are rounded", () => {
  expect(tipTime(Date.UTC(2026, 10, 28, 18, 30), "Europe/Berlin")).toBe("Sat 28 Nov 19:30");
  expect([0, 2.34, 41.6, null].map((value) => valueText(value, "count"))).toEqual([
    ...["0", "2.3", "42", "–"],
  ]);
});
