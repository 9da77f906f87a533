import type { Editor } from "@tiptap/core";
import { afterEach, describe, expect, it } from "vitest";
import { select } from "./commands";
import { fromEditor } from "./conversion";
import { fromText, MAX_COLUMNS, tableGrid, type ReportDocument } from "./document";
import { createEditor, goBack } from "./editor";
import { changeTable, insertTable, nextCell } from "./tables";

// jsdom has no layout, but scrolling to the selection reads rectangles.

let editor: Editor | undefined;
afterEach(() => editor?.destroy());

function open(document_: ReportDocument): Editor {
  editor = createEditor({
    place: document.body.appendChild(document.createElement("div")),
    document: document_,
    editable: true,
    attributes: {},
    macros: () => [],
    onEdit: () => undefined,
    onSelect: () => undefined,
  });
  return editor;
}

const blocks = (of: Editor) => fromEditor(of.state.doc).content;
const kinds = (of: Editor) => blocks(of).map((block) => block.type);
function size(of: Editor): number[] {
  const table = blocks(of).find((block) => block.type === "table");
  if (table?.type !== "table") return [];
  const grid = tableGrid(table);
  return [grid.length, grid[0]?.length ?? 0];
}

describe("a table", () => {
  it("is inserted below the line with the caret, with the caret in its first cell", () => {
    const here = open(fromText("one\ntwo"));
    select(here, { from: 2, to: 2 });
    insertTable(here);
    expect(kinds(here)).toEqual(["paragraph", "table", "paragraph"]);
    expect(size(here)).toEqual([3, 3]);
    expect(here.state.selection.$from.node(3).type.name).toBe("tableHeader");
    expect(here.state.selection.$from.index(1)).toBe(0);
    goBack(here);
    expect(kinds(here)).toEqual(["paragraph", "paragraph"]);
  });

  it("replaces an empty line, and is not nested in another table", () => {
    const here = open(fromText("one\n\ntwo"));
    select(here, { from: 6, to: 6 });
    insertTable(here);
    expect(kinds(here)).toEqual(["paragraph", "table", "paragraph"]);
    insertTable(here);
    expect(kinds(here)).toEqual(["paragraph", "table", "table", "paragraph"]);
  });

  it("can be inserted with any selection", () => {
    const here = open(fromText("one\ntwo"));
    here.commands.selectAll();
    insertTable(here);
    expect(kinds(here)).toEqual(["paragraph", "paragraph", "table"]);
  });

  it("gets and loses rows and columns; without columns it is removed", () => {
    const here = open(fromText(""));
    insertTable(here);
    changeTable(here, "row_above");
    changeTable(here, "row_below");
    changeTable(here, "column_before");
    changeTable(here, "column_after");
    expect(size(here)).toEqual([5, 5]);
    for (const rows of [4, 3, 2, 1]) {
      changeTable(here, "row_delete");
      expect(size(here)).toEqual([rows, 5]);
    }
    for (const columns of [4, 3, 2, 1]) {
      changeTable(here, "column_delete");
      expect(size(here)).toEqual([1, columns]);
    }
    changeTable(here, "column_delete");
    expect(kinds(here)).not.toContain("table");
  });

  it("has at most the engine's number of columns", () => {
    const here = open(fromText(""));
    insertTable(here);
    for (let number = 0; number < MAX_COLUMNS + 3; number += 1) changeTable(here, "column_after");
    expect(size(here)).toEqual([3, MAX_COLUMNS]);
  });

  it("gets a row by Tab in its last cell; outside a table Tab has no effect", () => {
    const here = open(fromText("one"));
    expect(nextCell(here, 1)).toBe(false);
    insertTable(here);
    for (let number = 0; number < 9; number += 1) expect(nextCell(here, 1)).toBe(true);
    expect(size(here)).toEqual([4, 3]);
    expect(here.state.selection.$from.index(1)).toBe(3);
    expect(nextCell(here, -1)).toBe(true);
    expect(size(here)).toEqual([4, 3]);
  });
});
