// Creates the text editor for a report document. It is independent of the service and of saving.
import { Editor, Extension } from "@tiptap/core";
import { history, redo, undo } from "@tiptap/pm/history";
import { Plugin, TextSelection } from "@tiptap/pm/state";
import { tableEditing } from "@tiptap/pm/tables";
import type { EditorView } from "@tiptap/pm/view";
import { insertText, repeatsUnit } from "./commands";
import { BracketHighlights } from "./highlights";
import { EditorKeys } from "./keymap";
import { startListByText, undoStartedList } from "./listStart";
import { cleanPasted } from "./pasting";
import { SCHEMA } from "./schema";
import { toEditor } from "./conversion";
import type { ReportDocument } from "./document";
import type { Macro } from "./macros";

/** Undo is independent of saving. */
const Undo = Extension.create({
  name: "undo",
  addProseMirrorPlugins: () => [
    history({ depth: 500, newGroupDelay: 600 }),
    new Plugin({ props: { handleKeyDown: undoByKey } }),
  ],
});

/** Ctrl+Z, Ctrl+Y, Ctrl+Shift+Z, also with Caps Lock on. */
function undoByKey(view: EditorView, event: KeyboardEvent): boolean {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return false;
  const key = event.key.toLowerCase();
  if (key !== "z" && key !== "y") return false;
  const back = key === "z" && !event.shiftKey;
  return (back ? undo : redo)(view.state, view.dispatch);
}

const Tables = Extension.create({
  name: "tables",
  addProseMirrorPlugins: () => [tableEditing({ allowTableNodeSelection: true })],
});

/** Selects the range that the input replaces: the editor may not know the browser's selection yet. */
function selectTarget(view: EditorView, event: InputEvent): void {
  const [range] = event.getTargetRanges();
  if (!range) return;
  const { doc, tr } = view.state;
  const from = doc.resolve(view.posAtDOM(range.startContainer, range.startOffset));
  const to = doc.resolve(view.posAtDOM(range.endContainer, range.endOffset));
  view.dispatch(tr.setSelection(TextSelection.between(from, to)));
}

/**
 * Handles multi-line text from dictation software, text expanders and input methods. The
 * browser would insert the line breaks into the paragraph and misplace the caret.
 */
function insertLines(view: EditorView, event: InputEvent): boolean {
  const { inputType, data } = event;
  if (!inputType.startsWith("insert") || inputType === "insertFromPaste") return false;
  if (!view.editable || !data || !/[\r\n]/.test(data)) return false;
  event.preventDefault();
  selectTarget(view, event);
  insertText(view, data.replace(/\r\n?/g, "\n"));
  return true;
}

/** Pasted words may repeat the unit that follows the selection. */
function pasteWords(view: EditorView, event: ClipboardEvent): boolean {
  const text = event.clipboardData?.getData("text/plain").trim() ?? "";
  if (!view.editable || !text || /[\r\n]/.test(text) || !repeatsUnit(view, text)) return false;
  insertText(view, text);
  return true;
}

export interface EditorOptions {
  place: HTMLElement;
  document: ReportDocument;
  editable: boolean;
  /** Attributes of the editable element. */
  attributes: Record<string, string>;
  macros: () => readonly Macro[];
  onEdit: () => void;
  onSelect: () => void;
  /** Handles keys before the editor; true stops further handling. */
  onKey?: (event: KeyboardEvent) => boolean;
}

export function createEditor(options: EditorOptions): Editor {
  return new Editor({
    element: options.place,
    extensions: [
      ...SCHEMA,
      EditorKeys.configure({ macros: options.macros }),
      Undo,
      Tables,
      BracketHighlights,
    ],
    content: toEditor(options.document),
    editable: options.editable,
    injectCSS: false,
    textDirection: "auto",
    enableInputRules: false,
    enablePasteRules: false,
    editorProps: {
      attributes: options.attributes,
      transformPastedHTML: cleanPasted,
      handlePaste: pasteWords,
      handleDOMEvents: { beforeinput: insertLines },
      handleTextInput: (view, from, to, text) => startListByText(view, { from, to }, text),
      handleKeyDown: (view, event) =>
        (options.onKey?.(event) ?? false) || (event.key === "Backspace" && undoStartedList(view)),
    },
    onUpdate: options.onEdit,
    onTransaction: options.onSelect,
  });
}

export const goBack = (editor: Editor): boolean => undo(editor.state, editor.view.dispatch);
export const goForth = (editor: Editor): boolean => redo(editor.state, editor.view.dispatch);
