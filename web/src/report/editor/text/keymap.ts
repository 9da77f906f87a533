// The keyboard shortcuts of the editor: Tab for brackets and macros, lists, tables, emphasis.
import { Extension, type Editor } from "@tiptap/core";
import type { Node as Inner } from "@tiptap/pm/model";
import { splitListItem } from "@tiptap/pm/schema-list";
import { Selection, TextSelection, type Transaction } from "@tiptap/pm/state";
import { CellSelection, deleteTable } from "@tiptap/pm/tables";
import { allStops } from "./brackets";
import { bracketBy, expandMacro } from "./commands";
import { indent, kindAt, setKind, toggleKind, type LineKind } from "./blocks";
import { expandsBySpace, macroBefore, type Macro } from "./macros";
import { nextCell } from "./tables";

export interface KeyOptions {
  macros: () => readonly Macro[];
}

const isList = (kind: LineKind) => kind === "bulletList" || kind === "orderedList";

function apply(editor: Editor, tr: Transaction | null): boolean {
  if (!tr) return false;
  editor.view.dispatch(tr);
  return true;
}

const run = (editor: Editor, kind: LineKind): boolean =>
  apply(editor, toggleKind(editor.state, kind));

/** Moves an item a level out; on the first level it becomes a paragraph. */
const outdent = (editor: Editor): boolean =>
  apply(editor, indent(editor.state, -1) ?? setKind(editor.state, "paragraph"));

/** At the beginning of a heading or an item, Backspace makes it a paragraph first. */
function backspace(editor: Editor): boolean {
  if (deleteWholeTable(editor)) return true;
  const { selection, tr } = editor.state;
  const { $from } = selection;
  if (!selection.empty || $from.parentOffset > 0) return false;
  const kind = kindAt(editor.state);
  if (isList(kind)) return outdent(editor);
  if (kind !== "paragraph") return apply(editor, setKind(editor.state, "paragraph"));
  const before = $from.depth ? $from.node(-1).maybeChild($from.index(-1) - 1) : null;
  if (!before?.type.name.endsWith("List")) return false;
  const end = TextSelection.findFrom(tr.doc.resolve($from.before()), -1, true);
  return end !== null && apply(editor, tr.delete(end.head, $from.pos).scrollIntoView());
}

/** Delete at the end of an item joins the line below it. */
function deleteForward(editor: Editor): boolean {
  if (deleteWholeTable(editor)) return true;
  const { selection, tr } = editor.state;
  const { $from } = selection;
  if (!selection.empty || $from.parentOffset < $from.parent.content.size) return false;
  const below = Selection.findFrom(tr.doc.resolve($from.after()), 1, true);
  if (!below || cellOf(below) !== cellOf(selection)) return false;
  if (![selection, below].some((point) => point.$from.node(-1)?.type.name === "listItem"))
    return false;
  return apply(editor, tr.delete($from.pos, below.from).scrollIntoView());
}

function deleteWholeTable(editor: Editor): boolean {
  const { selection } = editor.state;
  const whole =
    selection instanceof CellSelection && selection.isRowSelection() && selection.isColSelection();
  return whole && deleteTable(editor.state, editor.view.dispatch);
}

function cellOf({ $from }: Selection): Inner | null {
  for (let depth = $from.depth; depth > 0; depth -= 1) {
    if ($from.node(depth).type.name === "tableRow") return $from.node(depth + 1);
  }
  return null;
}

/** Below (or above) a table that ends (or begins) the text, an arrow key makes a line. */
function leaveTable(editor: Editor, direction: 1 | -1): boolean {
  const { selection, tr, schema } = editor.state;
  const { $from } = selection;
  if (selection instanceof CellSelection || $from.depth < 4) return false;
  if ($from.node(1).type.name !== "table") return false;
  const outermost = direction === 1 ? tr.doc.childCount - 1 : 0;
  const row = direction === 1 ? $from.node(1).childCount - 1 : 0;
  if ($from.index(0) !== outermost || $from.index(1) !== row) return false;
  if (!editor.view.endOfTextblock(direction === 1 ? "down" : "up")) return false;
  const at = direction === 1 ? $from.after(1) : $from.before(1);
  const paragraph = schema.nodes["paragraph"]?.create();
  if (!paragraph) return false;
  tr.insert(at, paragraph);
  return apply(editor, tr.setSelection(TextSelection.create(tr.doc, at + 1)).scrollIntoView());
}

/**
 * Enter makes the next item, ends a list on an empty one; below a heading a paragraph follows. On a
 * selected bracket or field it keeps its text and places the caret behind it.
 */
function enter(editor: Editor): boolean {
  const { doc, selection, schema, tr } = editor.state;
  const { from, to } = selection;
  if (from < to && allStops(doc).some((stop) => stop.from === from && stop.to === to)) {
    return apply(editor, tr.setSelection(TextSelection.create(doc, to)).scrollIntoView());
  }
  if (isList(kindAt(editor.state))) {
    if (selection.empty && selection.$from.parent.content.size === 0) return outdent(editor);
    const item = schema.nodes["listItem"];
    if (item && splitListItem(item)(editor.state, editor.view.dispatch)) return true;
  }
  return editor.commands.splitBlock();
}

function before(editor: Editor): string {
  const { $from, empty } = editor.state.selection;
  return empty ? $from.parent.textBetween(0, $from.parentOffset) : "";
}

export const EditorKeys = Extension.create<KeyOptions>({
  name: "editorKeys",
  priority: 200, // before the keys of the tables
  addOptions: () => ({ macros: () => [] }),
  addKeyboardShortcuts() {
    const { editor, options } = this;
    const expand = (only: (macro: Macro) => boolean, typed = ""): boolean => {
      const macro = macroBefore(before(editor), options.macros());
      return macro !== undefined && only(macro) && expandMacro(editor, macro, typed);
    };
    // After Escape, Tab leaves the text. Without brackets it always does.
    let leaving = false;
    const tab = (direction: 1 | -1) => (): boolean => {
      if (leaving) return (leaving = false);
      if (direction === 1 && expand(() => true)) return true;
      if (bracketBy(editor, direction)) return true;
      return nextCell(editor, direction);
    };
    return {
      Tab: tab(1),
      "Shift-Tab": tab(-1),
      Escape: () => {
        leaving = true;
        return false;
      },
      Space: () => expand(expandsBySpace, " "),
      Enter: () => enter(editor),
      "Shift-Enter": () => enter(editor),
      Backspace: () => backspace(editor),
      Delete: () => deleteForward(editor),
      ArrowDown: () => leaveTable(editor, 1),
      ArrowUp: () => leaveTable(editor, -1),
      "Shift-Alt-ArrowRight": () => apply(editor, indent(editor.state, 1)),
      "Shift-Alt-ArrowLeft": () => apply(editor, indent(editor.state, -1)),
      "Mod-b": () => editor.commands.toggleMark("bold"),
      "Mod-i": () => editor.commands.toggleMark("italic"),
      "Mod-u": () => editor.commands.toggleMark("underline"),
      "Mod-Alt-1": () => run(editor, "section"),
      "Mod-Alt-0": () => run(editor, "paragraph"),
      "Mod-Shift-8": () => run(editor, "bulletList"),
      "Mod-Shift-7": () => run(editor, "orderedList"),
      "Mod-]": () => bracketBy(editor, 1),
      "Mod-[": () => bracketBy(editor, -1),
    };
  },
});
