// "- " or "1. " at the beginning of a line starts a list. Undo, or Backspace directly after it, gives
// the typed characters back.
import { undo } from "@tiptap/pm/history";
import type { Node as Inner } from "@tiptap/pm/model";
import { TextSelection } from "@tiptap/pm/state";
import type { EditorView } from "@tiptap/pm/view";
import { kindAt, setKind } from "./blocks";
import type { Range } from "./brackets";
import { asStep } from "./commands";

const MARKER = /^(?:[-•*]|(\d{1,3})[.)])$/;

/** The text directly after a list was started, for each view. */
const started = new WeakMap<EditorView, Inner>();

/** Handles a typed space; returns false if it is an ordinary one. */
export function startListByText(view: EditorView, { from, to }: Range, typed: string): boolean {
  if (typed !== " " || from !== to || view.composing) return false;
  const { $from } = view.state.selection;
  const marker = MARKER.exec($from.parent.textBetween(0, $from.parentOffset, "", " "));
  if (!marker || from !== $from.pos || kindAt(view.state) !== "paragraph") return false;
  const number = marker[1] === undefined ? null : Number(marker[1]);
  const kind = number === null ? "bulletList" : "orderedList";
  const before = $from.node(-1).maybeChild($from.index(-1) - 1);
  const continued = before?.type.name === kind && (number ?? 0) !== 1;
  if (number !== null && number !== (continued ? before.childCount + 1 : 1)) return false;
  view.dispatch(view.state.tr.insertText(" ", from));
  const marked = view.state;
  const tr = marked.tr.delete($from.start(), from + 1);
  const list = setKind(marked.apply(tr), kind);
  for (const step of list.steps) tr.step(step);
  tr.setSelection(TextSelection.create(tr.doc, list.selection.from));
  if (continued) tr.join($from.before());
  asStep(view, tr.scrollIntoView());
  started.set(view, view.state.doc);
  return true;
}

/** Undoes the list that the last key has started. */
export function undoStartedList(view: EditorView): boolean {
  if (started.get(view) !== view.state.doc) return false;
  started.delete(view);
  return undo(view.state, view.dispatch);
}
