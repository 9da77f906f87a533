// What can be folded: a run of comment lines, and the indented lines below a key.
import {
  codeFolding,
  foldedRanges,
  foldEffect,
  foldGutter,
  foldKeymap,
  foldService,
} from "@codemirror/language";
import type { EditorState, Extension, Text } from "@codemirror/state";
import { keymap, type EditorView } from "@codemirror/view";
import { t } from "../../texts";

export interface Range {
  from: number;
  to: number;
}
const SHORTEST_COMMENT = 3; // shorter runs are read at a glance
const isComment = (line: string) => /^\s*#/.test(line);
const isBlank = (line: string) => line.trim() === "";
const indentation = (line: string) => line.length - line.trimStart().length;

/** The range that folds at a line, from its end on; null if nothing does. */
export function foldAt(doc: Text, number: number): Range | null {
  const line = doc.line(number);
  if (isBlank(line.text)) return null;
  if (isComment(line.text)) {
    if (number > 1 && isComment(doc.line(number - 1).text)) return null;
    return commentAt(doc, number);
  }
  const own = indentation(line.text);
  const isKey = /:\s*(?:[|>][+-]?\s*)?(?:#.*)?$/.test(line.text);
  let last = number;
  for (let next = number + 1; next <= doc.lines; next += 1) {
    const { text } = doc.line(next);
    if (isBlank(text)) continue;
    const isItem = isKey && indentation(text) === own && text.trimStart().startsWith("- ");
    if (indentation(text) <= own && !isItem) break;
    last = next;
  }
  return last > number ? { from: line.to, to: doc.line(last).to } : null;
}

function commentAt(doc: Text, number: number): Range | null {
  let last = number;
  while (last < doc.lines && isComment(doc.line(last + 1).text)) last += 1;
  if (last - number + 1 < SHORTEST_COMMENT) return null;
  return { from: doc.line(number).to, to: doc.line(last).to };
}

/** The runs of comment lines, which are folded when a file is opened. */
export function comments(doc: Text): Range[] {
  const found: Range[] = [];
  for (let number = 1; number <= doc.lines; number += 1) {
    const range = isComment(doc.line(number).text) ? commentAt(doc, number) : null;
    if (!range) continue;
    found.push(range);
    number = doc.lineAt(range.to).number;
  }
  return found;
}

export function foldComments(view: EditorView): void {
  view.dispatch({ effects: comments(view.state.doc).map((range) => foldEffect.of(range)) });
}

/** The folded ranges that contain a position. */
export function foldsAround(state: EditorState, at: number): Range[] {
  const found: Range[] = [];
  foldedRanges(state).between(at, at, (from, to) => {
    if (from < at && at <= to) found.push({ from, to });
  });
  return found;
}

function placeholder(
  _view: EditorView,
  unfold: (event: Event) => void,
  lines: number,
): HTMLElement {
  const made = document.createElement("span");
  made.className = "cm-foldPlaceholder";
  made.textContent = t("editor.folded", { count: lines });
  made.title = t("editor.unfold");
  made.onclick = unfold;
  return made;
}

export function folding(): Extension[] {
  return [
    foldService.of((state, from) => foldAt(state.doc, state.doc.lineAt(from).number)),
    codeFolding({
      preparePlaceholder: (state, range) =>
        state.doc.lineAt(range.to).number - state.doc.lineAt(range.from).number,
      placeholderDOM: placeholder,
    }),
    foldGutter({ openText: "⌄", closedText: "›" }),
    keymap.of(foldKeymap),
  ];
}
