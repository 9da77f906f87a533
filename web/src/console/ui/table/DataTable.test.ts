import { fireEvent, render, screen, within } from "@testing-library/svelte";
import { createRawSnippet, tick } from "svelte";
import { expect, it, vi } from "vitest";
import { LocalList } from "../../data/list.svelte";
import DataTable from "./DataTable.svelte";

interface Row {
  id: number;
  name: string;
}
const ROWS: Row[] = [3, 1, 2].map((id) => ({ id, name: `row ${id}` }));
const empty = createRawSnippet(() => ({ render: () => "<p>Nothing here</p>" }));

function shown(options: Record<string, unknown> = {}, rows: Row[] | null = ROWS) {
  const list = new LocalList<Row>(() => rows, { id: (row) => row.id });
  const props = {
    list,
    columns: [
      { id: "id", title: "Id", width: "5rem", text: (row: Row) => String(row.id) },
      { id: "name", title: "Name", width: "1fr", text: (row: Row) => row.name },
    ],
    key: (row: Row) => row.id,
    label: "Rows",
    empty,
    ...options,
  };
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the library does not know generics
  render(DataTable as any, props as any);
  return list;
}
const press = (key: string, more: object = {}) =>
  fireEvent.keyDown(screen.getByRole("grid"), { key, ...more });
const active = () => {
  const grid = screen.getByRole("grid");
  return document.getElementById(grid.getAttribute("aria-activedescendant") ?? "")?.textContent;
};

it("is a plain table if its rows do nothing", () => {
  shown();
  expect(screen.getByRole("table", { name: "Rows" })).toBeTruthy();
  expect(screen.getAllByRole("row")).toHaveLength(4);
});

it("moves, peeks, opens and selects by keyboard", async () => {
  const [onpeek, onopen] = [vi.fn(), vi.fn()];
  const list = shown({ selectable: true, onpeek, onopen });
  await fireEvent.focus(screen.getByRole("grid"));
  expect(active()).toContain("row 3");
  await press("ArrowDown");
  await press("j");
  expect(active()).toContain("row 2");
  await press("Home");
  await press("Enter");
  expect(onpeek).toHaveBeenCalledWith(ROWS[0]);
  await press("o");
  expect(onopen).toHaveBeenCalledWith(ROWS[0]);
  await press("x");
  await press("ArrowDown", { shiftKey: true });
  expect(list.selection.count(0)).toBe(2);
  await press("a", { ctrlKey: true });
  expect(list.selection.count(0)).toBe(3);
  const chosen = screen.getAllByRole("row").filter((row) => row.ariaSelected === "true");
  expect(
    chosen.length + document.querySelectorAll('[aria-selected="true"]').length,
  ).toBeGreaterThan(2);
  expect(screen.getByRole("group", { name: "Selection" }).textContent).toContain("3 selected");
});

it("sorts by a header, both ways, and says so", async () => {
  shown({ onopen: vi.fn() });
  const header = screen.getByRole("columnheader", { name: "Id" });
  await fireEvent.click(within(header).getByRole("button"));
  expect(header.getAttribute("aria-sort")).toBe("ascending");
  expect(screen.getAllByRole("row")[1]?.textContent).toContain("row 1");
  await fireEvent.click(within(header).getByRole("button"));
  await tick();
  expect(header.getAttribute("aria-sort")).toBe("descending");
  expect(screen.getAllByRole("row")[1]?.textContent).toContain("row 3");
  expect(screen.getByRole("columnheader", { name: "Name" }).hasAttribute("aria-sort")).toBe(false);
});

it("says what is empty, and is busy while it loads", () => {
  shown({}, []);
  expect(screen.getByText("Nothing here")).toBeTruthy();
  document.body.replaceChildren();
  shown({ label: "Loading" }, null);
  expect(screen.getByRole("table", { name: "Loading" }).getAttribute("aria-busy")).toBe("true");
});
