// The text of an editor: what is folded away, and the history of changes.
//
// A field shows the visible text, which lacks the folded lines. Offsets are either in the whole text
// or in the visible one; a fold lies in the visible text between two characters.
import type { Range } from "./folding";
import type { Problem } from "./problems";

export interface Edit {
  from: number;
  to: number;
  insert: string;
}
export interface Selection {
  start: number;
  end: number;
}
interface Change {
  made: readonly Edit[];
  taken: readonly Edit[];
}
interface Step {
  changes: Change[];
  before: Selection;
  after: Selection;
  at: number;
  isTyping: boolean;
}

const MOST_STEPS = 500;
const PAUSE = 500; // ms; typing after it is a step of its own

export class EditorText {
  text = $state.raw("");
  /** Ordered, without overlap; each from the end of a line to the end of a later one. */
  folds = $state.raw<readonly Range[]>([]);
  problems = $state.raw<readonly Problem[]>([]);
  readonly visible = $derived(
    replaced(
      this.text,
      this.folds.map(({ from, to }) => ({ from, to, insert: "" })),
    ),
  );
  /** Called with each new step of undo. */
  onstep: (() => void) | null = null;
  #done: Step[] = [];
  #undone: Step[] = [];

  constructor(text: string) {
    this.text = text.replace(/\r\n?/g, "\n");
  }

  /** The offset in the whole text; at a fold the one before it. */
  inText(visible: number): number {
    let at = visible;
    for (const { from, to } of this.folds) if (from < at) at += to - from;
    return at;
  }

  /** The offset in the visible text. */
  inVisible(at: number): number {
    let hidden = 0;
    for (const { from, to } of this.folds) hidden += Math.max(0, Math.min(at, to) - from);
    return at - hidden;
  }

  selectionInText({ start, end }: Selection): Selection {
    return { start: this.inText(start), end: this.inText(end) };
  }

  /** Makes edits, which are ordered and in offsets of the whole text, as one step of undo. */
  change(edits: readonly Edit[], before: Selection, after: Selection, isTyping = false): void {
    const change = { made: edits, taken: inverse(this.text, edits) };
    this.#apply(edits);
    const at = performance.now();
    const last = this.#done.at(-1);
    this.#undone = [];
    if (isTyping && last?.isTyping && at - last.at < PAUSE && last.after.end === before.end) {
      last.changes.push(change);
      Object.assign(last, { after, at });
      return;
    }
    this.#done.push({ changes: [change], before, after, at, isTyping });
    if (this.#done.length > MOST_STEPS) this.#done.shift();
    this.onstep?.();
  }

  /**
   * Takes over what was typed into the field, whose caret is now at `caret`.
   *
   * False if it would delete folded lines that were not selected: they are shown instead.
   */
  typed(visible: string, selected: Selection, caret: number): boolean {
    const { from, to, insert } = difference(this.visible, visible, caret);
    const edit = { from: this.inText(from), to: this.inText(to), insert };
    const before = this.selectionInText(selected);
    const touched = this.folds.filter((fold) => fold.from >= edit.from && fold.from < edit.to);
    const isSplit = insert.includes("\n") && this.folds.some((fold) => fold.from === edit.from);
    if (isSplit || (touched.length > 0 && selected.start === selected.end)) {
      this.unfold(edit.from, edit.to);
      if (!isSplit) return false;
    }
    const at = edit.from + insert.length;
    const isTyping = to - from + insert.length === 1;
    this.change([edit], before, { start: at, end: at }, isTyping);
    return true;
  }

  /** Undoes the last step; returns what is selected then. */
  undo(): Selection | null {
    const step = this.#done.pop();
    if (!step) return null;
    for (const { taken } of step.changes.toReversed()) this.#apply(taken);
    this.#undone.push(step);
    return step.before;
  }

  redo(): Selection | null {
    const step = this.#undone.pop();
    if (!step) return null;
    for (const { made } of step.changes) this.#apply(made);
    this.#done.push({ ...step, isTyping: false });
    return step.after;
  }

  fold(ranges: readonly Range[]): void {
    const others = this.folds.filter(
      (fold) => !ranges.some(({ from, to }) => from <= fold.from && fold.to <= to),
    );
    const isFree = ({ from, to }: Range) =>
      others.every((fold) => to <= fold.from || from >= fold.to);
    this.folds = [...others, ...ranges.filter(isFree)].sort((one, other) => one.from - other.from);
  }

  /** Shows the folded lines that a range touches. */
  unfold(from: number, to = from): void {
    this.folds = this.folds.filter((fold) => fold.to < from || fold.from > to);
  }

  /** Shows the folded lines that contain an offset. */
  reveal(at: number): void {
    this.folds = this.folds.filter(({ from, to }) => at <= from || at > to);
  }

  #apply(edits: readonly Edit[]): void {
    this.text = replaced(this.text, edits);
    this.folds = this.folds
      .filter(({ from, to }) => edits.every((edit) => edit.to <= from || edit.from >= to))
      .map((fold) => shifted(fold, edits));
    this.problems = this.problems
      .filter(({ from, to }) => edits.every((edit) => edit.to <= from || edit.from >= to))
      .map((problem) => shifted(problem, edits));
  }
}

/** Where a range is after edits before and behind it. */
function shifted<Kind extends Range>(range: Kind, edits: readonly Edit[]): Kind {
  const shift = edits
    .filter((edit) => edit.to <= range.from)
    .reduce((sum, edit) => sum + edit.insert.length - (edit.to - edit.from), 0);
  return { ...range, from: range.from + shift, to: range.to + shift };
}

function replaced(text: string, edits: readonly Edit[]): string {
  let made = "";
  let at = 0;
  for (const { from, to, insert } of edits) {
    made += text.slice(at, from) + insert;
    at = to;
  }
  return made + text.slice(at);
}

/** The edits that take these back, in offsets of the text after them. */
function inverse(text: string, edits: readonly Edit[]): Edit[] {
  let shift = 0;
  return edits.map(({ from, to, insert }) => {
    const start = from + shift;
    shift += insert.length - (to - from);
    return { from: start, to: start + insert.length, insert: text.slice(from, to) };
  });
}

/** The one edit that makes `text` of `old`; the caret is behind the inserted text. */
function difference(old: string, text: string, caret: number): Edit {
  let rest = text.length - caret;
  if (rest > old.length || !old.endsWith(text.slice(caret))) {
    rest = 0;
    const most = Math.min(old.length, text.length);
    while (rest < most && old.at(-1 - rest) === text.at(-1 - rest)) rest += 1;
  }
  const [to, end] = [old.length - rest, text.length - rest];
  let from = 0;
  while (from < Math.min(to, end) && old[from] === text[from]) from += 1;
  return { from, to, insert: text.slice(from, end) };
}
