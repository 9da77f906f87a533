// The keys of the editor: brackets and macros by Tab, lists, emphasis, undo.
import { Extension, type Editor } from "@tiptap/core";
import { bracketBy, expandMacro } from "./commands";
import { kindAt, setKind, toggleKind, type LineKind } from "./blocks";
import { expandsBySpace, macroBefore, type Macro } from "./macros";

export interface KeyOptions {
  macros: () => readonly Macro[];
}

const isList = (kind: LineKind) => kind === "bulletList" || kind === "orderedList";

function run(editor: Editor, kind: LineKind): boolean {
  editor.view.dispatch(toggleKind(editor.state, kind));
  return true;
}

/** At the beginning of a heading or an item, Backspace makes it a paragraph first. */
function backspace(editor: Editor): boolean {
  const { selection } = editor.state;
  if (!selection.empty || selection.$from.parentOffset > 0) return false;
  if (kindAt(editor.state) === "paragraph") return false;
  editor.view.dispatch(setKind(editor.state, "paragraph"));
  return true;
}

/** Enter ends a list on an empty item; below a heading it goes on with a paragraph. */
function enter(editor: Editor): boolean {
  const { selection } = editor.state;
  const kind = kindAt(editor.state);
  if (isList(kind) && selection.empty && selection.$from.parent.content.size === 0) {
    editor.view.dispatch(setKind(editor.state, "paragraph"));
    return true;
  }
  return editor.commands.splitBlock();
}

function before(editor: Editor): string {
  const { $from, empty } = editor.state.selection;
  return empty ? $from.parent.textBetween(0, $from.parentOffset) : "";
}

export const EditorKeys = Extension.create<KeyOptions>({
  name: "editorKeys",
  addOptions: () => ({ macros: () => [] }),
  addKeyboardShortcuts() {
    const { editor, options } = this;
    const expand = (only: (macro: Macro) => boolean, typed = ""): boolean => {
      const macro = macroBefore(before(editor), options.macros());
      return macro !== undefined && only(macro) && expandMacro(editor, macro, typed);
    };
    // Escape lets the next Tab leave the text, as without brackets it does anyway.
    let leaving = false;
    const tab = (direction: 1 | -1) => (): boolean => {
      if (leaving) return (leaving = false);
      if (direction === 1 && expand(() => true)) return true;
      return bracketBy(editor, direction);
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
