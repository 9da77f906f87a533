// Makes an editor over a document of ours. Knows neither the engine nor when a text is saved.
import { Editor, Extension } from "@tiptap/core";
import { history, redo, undo } from "@tiptap/pm/history";
import type { EditorView } from "@tiptap/pm/view";
import { insertText } from "./commands";
import { BracketHighlights } from "./highlights";
import { EditorKeys } from "./keys";
import { cleanPasted } from "./pasting";
import { SCHEMA } from "./schema";
import { toEditor } from "./convert";
import type { ReportDocument } from "./document";
import type { Macro } from "./macros";

/** Saving is no part of it: undo goes back over as many saves as there were. */
const Undo = Extension.create({
  name: "undo",
  addProseMirrorPlugins: () => [history({ depth: 500, newGroupDelay: 600 })],
  addKeyboardShortcuts() {
    const { editor } = this;
    const back = () => undo(editor.state, editor.view.dispatch);
    const forth = () => redo(editor.state, editor.view.dispatch);
    return { "Mod-z": back, "Mod-y": forth, "Shift-Mod-z": forth };
  },
});

/**
 * Text of several lines that dictation software, text expanders and input methods put in. The
 * browser would write its line ends into the paragraph, and the caret would end before the end.
 */
function insertLines(view: EditorView, event: InputEvent): boolean {
  const { inputType, data } = event;
  if (!inputType.startsWith("insert") || inputType === "insertFromPaste") return false;
  if (!view.editable || !data || !/[\r\n]/.test(data)) return false;
  event.preventDefault();
  insertText(view, data.replace(/\r\n?/g, "\n"));
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
}

export function createEditor(options: EditorOptions): Editor {
  return new Editor({
    element: options.place,
    extensions: [
      ...SCHEMA,
      EditorKeys.configure({ macros: options.macros }),
      Undo,
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
      handleDOMEvents: { beforeinput: insertLines },
    },
    onUpdate: options.onEdit,
    onTransaction: options.onSelect,
  });
}

export const goBack = (editor: Editor): boolean => undo(editor.state, editor.view.dispatch);
export const goForth = (editor: Editor): boolean => redo(editor.state, editor.view.dispatch);
