import { expect, describe, it } from "vitest";
import { Selection } from "./selection.svelte";
import { isNearEnd, scrollFor, visibleRange } from "./viewport.svelte";

describe("virtual rows", () => {
  it("are those in sight and eight more at each side", () => {
    expect(visibleRange(0, 600, 30, 10_000)).toEqual({ first: 0, end: 28 });
    expect(visibleRange(3000, 600, 30, 10_000)).toEqual({ first: 92, end: 128 });
    expect(visibleRange(0, 600, 30, 3)).toEqual({ first: 0, end: 3 });
    expect(visibleRange(0, 600, 30, 0)).toEqual({ first: 0, end: 0 });
  });

  it("come into sight with the least movement", () => {
    expect(scrollFor(5, 0, 600, 30)).toBe(0);
    expect(scrollFor(25, 0, 600, 30)).toBe(180);
    expect(scrollFor(2, 300, 600, 30)).toBe(60);
  });

  it("ask for more before the end is in sight", () => {
    expect(isNearEnd(0, 600, 30, 100)).toBe(false);
    expect(isNearEnd(1600, 600, 30, 100)).toBe(true);
  });
});

describe("a selection", () => {
  it("of all that match leaves out the rows that are unticked", () => {
    const selection = new Selection();
    selection.setAll({ state: ["parked"] });
    selection.toggle(7);
    expect(selection.count(1240)).toBe(1239);
    expect([selection.has(7), selection.has(8)]).toEqual([false, true]);
    expect(selection.request("messages")).toEqual({
      list: "messages",
      filters: { state: ["parked"] },
      except_ids: [7],
    });
  });

  it("of a range includes both ends, in both directions", () => {
    const selection = new Selection();
    selection.range([9, 8, 7, 6], 6, 8);
    expect(selection.request("messages")).toEqual({ list: "messages", ids: [8, 7, 6] });
    selection.clear();
    expect(selection.isEmpty).toBe(true);
  });
});
