// Tables in the text: insertion, and changes of rows and columns.
import type { Editor } from "@tiptap/core";
import type { Node as Inner, Schema } from "@tiptap/pm/model";
import { TextSelection, type Command } from "@tiptap/pm/state";
import {
  addColumnAfter,
  addColumnBefore,
  addRowAfter,
  addRowBefore,
  deleteColumn,
  deleteRow,
  deleteTable,
  goToNextCell,
  isInTable,
  selectedRect,
} from "@tiptap/pm/tables";
import { asStep } from "./commands";
import { MAX_COLUMNS } from "./document";

const ROWS = 3;
const COLUMNS = 3;

function row(schema: Schema, cell: string): Inner {
  const cells = Array.from({ length: COLUMNS }, () => {
    return schema.nodes[cell]?.createAndFill() as Inner;
  });
  return schema.nodes["tableRow"]?.create(null, cells) as Inner;
}

/** Inserts a table below the current line or table; it replaces an empty line. */
export function insertTable(editor: Editor): void {
  const { state, view } = editor;
  const { tr, schema, selection } = state;
  const index = Math.min(selection.$to.index(0), tr.doc.childCount - 1);
  const block = tr.doc.child(index);
  const rows = Array.from({ length: ROWS }, (_, place) =>
    row(schema, place ? "tableCell" : "tableHeader"),
  );
  const table = schema.nodes["table"]?.create(null, rows) as Inner;
  const from = tr.doc.resolve(0).posAtIndex(index, 0);
  const empty = block.type.name === "paragraph" && block.content.size === 0;
  const at = empty ? from : from + block.nodeSize;
  tr.replaceWith(at, empty ? at + block.nodeSize : at, table);
  tr.setSelection(TextSelection.near(tr.doc.resolve(at + 1), 1));
  asStep(editor, tr.scrollIntoView());
  view.focus();
}

export const inTable = (editor: Editor): boolean => isInTable(editor.state);

/** The service limits the number of columns. */
const bounded =
  (command: Command): Command =>
  (state, dispatch) =>
    isInTable(state) && selectedRect(state).map.width < MAX_COLUMNS && command(state, dispatch);

/** Deleting the last row or column deletes the table. */
const orTable =
  (command: Command, last: (rect: ReturnType<typeof selectedRect>) => boolean): Command =>
  (state, dispatch) =>
    isInTable(state) && (last(selectedRect(state)) ? deleteTable : command)(state, dispatch);

const CHANGES = {
  row_above: addRowBefore,
  row_below: addRowAfter,
  column_before: bounded(addColumnBefore),
  column_after: bounded(addColumnAfter),
  row_delete: orTable(deleteRow, ({ top, bottom, map }) => top === 0 && bottom === map.height),
  column_delete: orTable(deleteColumn, ({ left, right, map }) => left === 0 && right === map.width),
  table_delete: deleteTable,
} satisfies Record<string, Command>;

export type TableChange = keyof typeof CHANGES;
export const TABLE_CHANGES = Object.keys(CHANGES) as TableChange[];

/** Changes the table with the caret; the caret stays in the text. */
export function changeTable(editor: Editor, change: TableChange): void {
  CHANGES[change](editor.state, editor.view.dispatch);
  editor.view.focus();
}

/** Moves to the next or previous cell; from the last cell to a new row. */
export function nextCell(editor: Editor, direction: 1 | -1): boolean {
  const { view } = editor;
  if (goToNextCell(direction)(view.state, view.dispatch)) return true;
  if (direction === -1 || !addRowAfter(view.state, view.dispatch)) return false;
  return goToNextCell(1)(view.state, view.dispatch);
}
