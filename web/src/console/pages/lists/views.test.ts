// @vitest-environment node
import { expect, it } from "vitest";
import type { SavedView } from "../../data/api-types";
import type { FilterField } from "../../data/filter";
import { isChanged, shownOf } from "./views";

const FIELDS: FilterField[] = [
  { name: "state", title: "state", type: "choice" },
  { name: "number", title: "number", type: "text", private: true },
];
const view = (body: Partial<SavedView["body"]>): SavedView => ({
  id: 1,
  list: "messages",
  name: "Mine",
  shared: false,
  owner: "a",
  own: true,
  body: { filters: {}, columns: [], sort: "time", ...body },
});

it("a view without columns and order keeps those of the person", () => {
  expect(shownOf(view({}))).toEqual({ filters: {}, sort: "", columns: null });
});

it("a private filter does not change a view, anything else does", () => {
  const shown = shownOf(view({ filters: { state: ["parked"] }, columns: ["time", "state"] }));
  const filter = { state: ["parked"], number: ["A1"] };
  const columns = ["time", "state"];
  expect(isChanged(shown, filter, "", columns, FIELDS)).toBe(false);
  expect(isChanged(shown, { state: ["refused"] }, "", columns, FIELDS)).toBe(true);
  expect(isChanged(shown, filter, "-state", columns, FIELDS)).toBe(true);
  expect(isChanged(shown, filter, "", ["state", "time"], FIELDS)).toBe(true);
});
