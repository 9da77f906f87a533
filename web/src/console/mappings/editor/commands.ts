// What keys do in the editor, as edits of a text and its selection.
import type { Edit, Selection } from "./editorText.svelte";

/** The edits of a key, and what is selected after them. */
export interface Action {
  edits: readonly Edit[];
  selection: Selection;
}

const INDENT = "  ";
const PAIRS: Readonly<Record<string, string>> = {
  "(": ")",
  "[": "]",
  "{": "}",
  '"': '"',
  "'": "'",
};
const OPENING = "([{";
const CLOSING = ")]}";
const MOST_SCANNED = 10_000;

/** The selected lines: offset of the first's start and of the last's end. */
function linesOf(text: string, { start, end }: Selection): { from: number; to: number } {
  const from = text.lastIndexOf("\n", start - 1) + 1;
  const last = end > start && text[end - 1] === "\n" ? end - 1 : end; // a line of which nothing is selected
  const to = text.indexOf("\n", Math.max(last, from));
  return { from, to: to < 0 ? text.length : to };
}

/** The offsets at which the selected lines start. */
function startsOf(text: string, selection: Selection): number[] {
  const { from, to } = linesOf(text, selection);
  const starts = [from];
  for (let at = text.indexOf("\n", from); at >= 0 && at < to; at = text.indexOf("\n", at + 1))
    starts.push(at + 1);
  return starts;
}

/** Where an offset is after edits; what is inserted at it comes before it. */
export function moved(at: number, edits: readonly Edit[]): number {
  return edits.reduce((sum, { from, to, insert }) => {
    if (from > at) return sum;
    return sum + insert.length - (Math.min(to, at) - from);
  }, at);
}

function around(edits: readonly Edit[], { start, end }: Selection): Action {
  return { edits, selection: { start: moved(start, edits), end: moved(end, edits) } };
}

function insertion(at: number, insert: string, to = at): Action {
  const caret = at + insert.length;
  return { edits: [{ from: at, to, insert }], selection: { start: caret, end: caret } };
}

/** A new line with the indentation of this one; a bracket that is open gets a line of its own. */
export function newLine(text: string, { start, end }: Selection): Action {
  const line = text.slice(text.lastIndexOf("\n", start - 1) + 1, start);
  const indent = /^[ \t]*/.exec(line)?.[0] ?? "";
  const before = text[start - 1] ?? "";
  const closes = OPENING.includes(before) && before !== "" && text[end] === PAIRS[before];
  if (!closes) return insertion(start, `\n${indent}`, end);
  const caret = start + 1 + indent.length + INDENT.length;
  const insert = `\n${indent}${INDENT}\n${indent}`;
  return { edits: [{ from: start, to: end, insert }], selection: { start: caret, end: caret } };
}

/** An empty line below this one. */
export function lineBelow(text: string, selection: Selection): Action {
  const { from, to } = linesOf(text, selection);
  return insertion(to, `\n${/^[ \t]*/.exec(text.slice(from, to))?.[0] ?? ""}`);
}

export function indentMore(text: string, selection: Selection): Action {
  const starts = startsOf(text, selection).filter(
    (at, _, all) => all.length === 1 || text[at] !== "\n",
  );
  return around(
    starts.map((at) => ({ from: at, to: at, insert: INDENT })),
    selection,
  );
}

export function indentLess(text: string, selection: Selection): Action {
  const edits = startsOf(text, selection).flatMap((at) => {
    const length = /^(?: {1,2}|\t)/.exec(text.slice(at, at + INDENT.length))?.[0].length ?? 0;
    return length ? [{ from: at, to: at + length, insert: "" }] : [];
  });
  return around(edits, selection);
}

/** Makes the selected lines comments, or takes the signs away if all are. */
export function toggleComment(text: string, selection: Selection): Action {
  const starts = startsOf(text, selection).flatMap((at) => {
    const [line = ""] = text.slice(at).split("\n", 1);
    return line.trim()
      ? [{ at: at + line.length - line.trimStart().length, line: line.trim() }]
      : [];
  });
  const isCommented = starts.every(({ line }) => line.startsWith("#"));
  const edits = starts.map(({ at, line }) =>
    isCommented
      ? { from: at, to: at + (line.startsWith("# ") ? 2 : 1), insert: "" }
      : { from: at, to: at, insert: "# " },
  );
  return around(edits, selection);
}

/** Moves the selected lines up (-1) or down (1); null at the end of the text. */
export function moveLines(text: string, selection: Selection, step: -1 | 1): Action | null {
  const { from, to } = linesOf(text, selection);
  const shifted = (by: number) => ({ start: selection.start + by, end: selection.end + by });
  if (step < 0) {
    if (from === 0) return null;
    const above = text.lastIndexOf("\n", from - 2) + 1;
    const insert = `${text.slice(from, to)}\n${text.slice(above, from - 1)}`;
    return { edits: [{ from: above, to, insert }], selection: shifted(above - from) };
  }
  if (to === text.length) return null;
  const next = text.indexOf("\n", to + 1);
  const below = next < 0 ? text.length : next;
  const insert = `${text.slice(to + 1, below)}\n${text.slice(from, to)}`;
  return { edits: [{ from, to: below, insert }], selection: shifted(below - to) };
}

/** Copies the selected lines; the copy below (1) or above (-1) is selected. */
export function copyLines(text: string, selection: Selection, step: -1 | 1): Action {
  const { from, to } = linesOf(text, selection);
  const by = step > 0 ? to - from + 1 : 0;
  return {
    edits: [{ from: to, to, insert: `\n${text.slice(from, to)}` }],
    selection: { start: selection.start + by, end: selection.end + by },
  };
}

export function deleteLines(text: string, selection: Selection): Action {
  const { from, to } = linesOf(text, selection);
  const [start, end] = to < text.length ? [from, to + 1] : [Math.max(from - 1, 0), to];
  const next = text.indexOf("\n", end);
  const length = (next < 0 ? text.length : next) - end;
  const column = Math.min(selection.start - from, to < text.length ? length : 0);
  const caret = start + column;
  return { edits: [{ from: start, to: end, insert: "" }], selection: { start: caret, end: caret } };
}

export function selectLines(text: string, selection: Selection): Selection {
  const { from, to } = linesOf(text, selection);
  return { start: from, end: Math.min(to + 1, text.length) };
}

/** What typing a bracket or quotation mark does beside inserting it; null: nothing. */
export function typeBracket(text: string, { start, end }: Selection, sign: string): Action | null {
  const next = text[end] ?? "";
  if (start === end && next === sign && (CLOSING.includes(sign) || PAIRS[sign] === sign))
    return { edits: [], selection: { start: end + 1, end: end + 1 } };
  const closing = PAIRS[sign];
  if (closing === undefined) return null;
  if (start < end) {
    const edits = [
      { from: start, to: start, insert: sign },
      { from: end, to: end, insert: closing },
    ];
    return { edits, selection: { start: start + 1, end: end + 1 } };
  }
  const isWord = closing === sign && /[\w"'\\]/.test(text[start - 1] ?? "");
  if (isWord || !/^[\s)\]}:;>,]?$/.test(next)) return null;
  return {
    edits: [{ from: start, to: end, insert: sign + closing }],
    selection: { start: start + 1, end: start + 1 },
  };
}

/** Deletes a pair with nothing in it; null if the caret is not in one. */
export function deletePair(text: string, { start, end }: Selection): Action | null {
  const before = text[start - 1] ?? "";
  if (start !== end || before === "" || PAIRS[before] !== text[start]) return null;
  return insertion(start - 1, "", start + 1);
}

/** The offsets of the bracket beside the caret and of its partner; null without both. */
export function matchingBrackets(text: string, caret: number): [number, number] | null {
  for (const at of [caret - 1, caret]) {
    const sign = text[at] ?? "";
    const step = sign === "" ? 0 : OPENING.includes(sign) ? 1 : CLOSING.includes(sign) ? -1 : 0;
    if (step === 0) continue;
    const partner = partnerOf(text, at, step);
    if (partner !== null) return [at, partner];
  }
  return null;
}

function partnerOf(text: string, at: number, step: number): number | null {
  const open = [text[at] ?? ""];
  for (let far = 1; far < MOST_SCANNED; far += 1) {
    const place = at + step * far;
    const sign = text[place];
    if (sign === undefined) return null;
    if ((step > 0 ? OPENING : CLOSING).includes(sign)) open.push(sign);
    else if ((step > 0 ? CLOSING : OPENING).includes(sign)) {
      const last = open.pop() ?? "";
      const [opening, closing] = step > 0 ? [last, sign] : [sign, last];
      if (PAIRS[opening] !== closing) return null;
      if (open.length === 0) return place;
    }
  }
  return null;
}
