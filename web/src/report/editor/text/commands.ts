// Commands on the text: brackets, macros, insertions, suggestions.
import type { Editor } from "@tiptap/core";
import { closeHistory } from "@tiptap/pm/history";
import { Fragment, Slice, type Node as Inner } from "@tiptap/pm/model";
import { TextSelection, type Transaction } from "@tiptap/pm/state";
import type { EditorView } from "@tiptap/pm/view";
import { allStops, bracketsBetween, neighbour, type Range } from "./brackets";
import { toEditor } from "./conversion";
import { blockLines, inlineText, itemParts, type ReportDocument } from "./document";
import { asSentence, repeatedUnit, spaced, unitFollows } from "./joining";
import { macroText, type Macro } from "./macros";

/** An editor, or its view, whose state the command changes. */
type Changed = Pick<EditorView, "state" | "dispatch"> | Editor;

const viewOf = (changed: Changed) => ("view" in changed ? changed.view : changed);

/** Makes a change a separate undo step, also directly before or after typing. */
export function asStep(changed: Changed, tr: Transaction): void {
  const view = viewOf(changed);
  view.dispatch(closeHistory(tr));
  view.dispatch(closeHistory(view.state.tr));
}

/** Selects a range and shows it. */
export function select(editor: Editor, range: Range): void {
  const { state, view } = editor;
  const size = state.doc.content.size;
  const selection = TextSelection.between(
    state.doc.resolve(Math.min(range.from, size)),
    state.doc.resolve(Math.min(range.to, size)),
  );
  view.dispatch(state.tr.setSelection(selection).scrollIntoView());
}

/** Selects the next or previous bracket or field with default text; false if there is none. */
export function bracketBy(editor: Editor, direction: 1 | -1): boolean {
  const { doc, selection } = editor.state;
  const found = neighbour(allStops(doc), selection, direction);
  if (!found) return false;
  select(editor, found);
  editor.view.focus();
  return true;
}

/** Inserts a document at the selection: a single line is inserted inline, several as lines. */
export function insertDocument(
  editor: Changed,
  document: ReportDocument,
  replace?: Range,
  after = "",
): void {
  const { state } = editor;
  const range = replace ?? state.selection;
  const node = state.schema.nodeFromJSON(toEditor(document));
  const first = node.firstChild as Inner;
  const single = node.childCount === 1 && first.type.name === "paragraph";
  const slice = single
    ? new Slice(first.content, 0, 0)
    : new Slice(Fragment.from(node.content), openness(first), openness(node.lastChild as Inner));
  const tr = state.tr.replaceRange(range.from, range.to, slice);
  const end = tr.mapping.map(range.to);
  const bracket = bracketsBetween(tr.doc, range.from, Math.max(range.from, end))[0];
  if (after && !bracket) tr.insertText(after, end);
  const last = end + after.length;
  const place = bracket ?? { from: last, to: last };
  tr.setSelection(TextSelection.between(tr.doc.resolve(place.from), tr.doc.resolve(place.to)));
  asStep(editor, tr.scrollIntoView());
}

const openness = (node: Inner): number => (node.type.name === "paragraph" ? 1 : 0);

/** The text of the line before and after the selection. */
function around({ state }: Changed): { before: string; after: string } {
  const { $from, $to } = state.selection;
  const text = (block: Inner, from: number, to: number) => block.textBetween(from, to, "", " ");
  return {
    before: text($from.parent, 0, $from.parentOffset),
    after: text($to.parent, $to.parentOffset, $to.parent.content.size),
  };
}

/** Returns true if a bracket for a number is selected: a unit follows it. */
export function selectsNumber(editor: Changed): boolean {
  const { from, to, empty } = editor.state.selection;
  const text = editor.state.doc.textBetween(from, to, "\n");
  return !empty && /^\[[^[\]]*\]$/.test(text) && unitFollows(around(editor).after);
}

/** Returns true if a text ends with the unit, or another one, that follows the selection. */
export const repeatsUnit = (editor: Changed, text: string): boolean =>
  repeatedUnit(text, around(editor).after) > 0;

/** Inserts a phrase, or a whole sentence, with the spaces and the full stop that its place needs. */
export function insertPhrase(editor: Changed, text: string, kind: "phrase" | "sentence"): void {
  const { before, after } = around(editor);
  const join = kind === "sentence" ? asSentence : spaced;
  insertText(editor, text.includes("\n") ? text : join(text, before, after));
}

/**
 * Inserts plain text; line breaks create lines. A unit at its end replaces the unit that follows, so
 * that `8 mm` in `[size] mm` gives `8 mm`.
 */
export function insertText(editor: Changed, text: string): void {
  const repeated = repeatedUnit(text, around(editor).after);
  if (repeated) {
    const { from, to } = editor.state.selection;
    const tr = editor.state.tr.setSelection(
      TextSelection.create(editor.state.doc, from, to + repeated),
    );
    viewOf(editor).dispatch(tr);
  }
  const content = text.split("\n").map((line) => {
    return { type: "paragraph" as const, content: [{ type: "text" as const, text: line }] };
  });
  insertDocument(editor, { type: "doc", content });
}

/** Replaces the selection by a choice; a field remains a field, so it can be changed again. */
export function insertChoice(editor: Editor, word: string): void {
  const { from, to } = editor.state.selection;
  const tr = editor.state.tr.insertText(word, from, to);
  const end = tr.doc.resolve(from + word.length);
  asStep(editor, tr.setSelection(TextSelection.near(end, -1)).scrollIntoView());
}

/**
 * Expands the macro whose trigger is before the caret. `typed` is the space that expanded it: it
 * follows the macro's text, unless that has a bracket to fill in, or ends a line or with a space.
 */
export function expandMacro(editor: Editor, macro: Macro, typed = ""): boolean {
  const { from } = editor.state.selection;
  const document = macroText(macro.document);
  const last = document.content.at(-1);
  const ends = last?.type === "paragraph" ? inlineText(last.content) : "";
  const after = ends && !/\s$/.test(ends) ? typed : "";
  insertDocument(editor, document, { from: from - macro.trigger.length, to: from }, after);
  return true;
}

/** Replaces the whole text in one undoable step. */
export function replaceAll(editor: Editor, document: ReportDocument): void {
  const { state } = editor;
  const node = state.schema.nodeFromJSON(toEditor(document));
  asStep(editor, state.tr.replaceWith(0, state.doc.content.size, node.content));
}

/** Shows another text and clears the undo history. */
export function showDocument(editor: Editor, document: ReportDocument): void {
  editor.commands.setContent(toEditor(document), { emitUpdate: false });
}

/** Returns the ranges of suggested text. */
export function suggestions(doc: Inner): Range[] {
  const found: Range[] = [];
  doc.descendants((node, position) => {
    if (!node.isText || !node.marks.some((mark) => mark.type.name === "suggested")) return;
    const last = found.at(-1);
    const to = position + node.nodeSize;
    if (last?.to === position) last.to = to;
    else found.push({ from: position, to });
  });
  return found;
}

/** Keeps or removes suggested text: everywhere, or in the range alone. */
export function settle(editor: Editor, keep: boolean, only?: Range): void {
  const { state } = editor;
  const tr = state.tr;
  for (const { from, to } of only ? [only] : suggestions(state.doc).reverse()) {
    if (keep) tr.removeMark(from, to, state.schema.marks["suggested"]);
    else removeStretch(tr.doc.resolve(from).parent, tr, { from, to });
  }
  asStep(editor, tr);
}

function removeStretch(parent: Inner, tr: Editor["state"]["tr"], { from, to }: Range): void {
  const $from = tr.doc.resolve(from);
  const whole = parent.content.size === to - from && $from.depth === 1 && tr.doc.childCount > 1;
  if (whole) tr.delete($from.before(1), $from.after(1));
  else tr.delete(from, to);
}

/** Returns the range of a check finding: block, line of a list or table, characters. */
export function rangeOf(
  doc: Inner,
  place: { block: number; item: number | null; start: number; end: number },
): Range | null {
  if (place.block >= doc.childCount) return null;
  let at = 0;
  for (let index = 0; index < place.block; index += 1) at += doc.child(index).nodeSize;
  const block = doc.child(place.block);
  const lines: number[] = [];
  if (block.isTextblock) lines.push(at + 1);
  block.descendants((node, position) => {
    if (node.isTextblock) lines.push(at + 1 + position + 1);
  });
  const line = lines[block.isTextblock ? 0 : (place.item ?? 0)];
  return line === undefined ? null : { from: line + place.start, to: line + place.end };
}

/** Returns a document's first line, for lists. */
export function firstLine(document: ReportDocument): string {
  const block = document.content[0];
  if (!block) return "";
  if (block.type === "section") return block.title;
  if (block.type === "list") return inlineText(itemParts(block.items[0] ?? []).text);
  return blockLines(block)[0] ?? "";
}
