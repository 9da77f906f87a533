// Finds requests and default text. A request is a bracket `[…]`: an open field of a template, or
// typed, pasted or dictated text, whatever it says. Default text is a field whose text is still
// the default that its template declares.
import type { Node as Inner } from "@tiptap/pm/model";

export interface Range {
  from: number;
  to: number;
}

const BRACKET = /[[\uff3b][^[\]\uff3b\uff3d]*[\]\uff3d]/g;

/** Returns the ranges of the brackets in a text. */
export function bracketsIn(text: string): Range[] {
  return Array.from(text.matchAll(BRACKET), (match) => {
    return { from: match.index, to: match.index + match[0].length };
  });
}

/** Returns the brackets of the text blocks between two positions, in document order. */
export function bracketsBetween(doc: Inner, from: number, to: number): Range[] {
  const found: Range[] = [];
  doc.nodesBetween(from, to, (node, position) => {
    if (!node.isTextblock) return true;
    const text = node.textContent;
    if (/[[\uff3b]/.test(text)) {
      for (const range of bracketsIn(text)) {
        found.push({ from: position + 1 + range.from, to: position + 1 + range.to });
      }
    }
    return false;
  });
  return found;
}

/** A position that Tab visits. */
export interface Stop extends Range {
  /** Whether it is a bracket; otherwise it is a field with its default text. */
  open: boolean;
}

/** Returns the brackets of a document, and the fields with unchanged default text. */
export function allStops(doc: Inner): Stop[] {
  const size = doc.content.size;
  const open = bracketsBetween(doc, 0, size).map((bracket) => ({ ...bracket, open: true }));
  const defaults = defaultsBetween(doc, 0, size).map(({ from, to }) => ({ from, to, open: false }));
  return [...open, ...defaults].sort((one, other) => one.from - other.from);
}

/** Returns the fields with unchanged default text between two positions. */
export function defaultsBetween(doc: Inner, from: number, to: number): FieldRange[] {
  const found: FieldRange[] = [];
  doc.nodesBetween(from, to, (node, position) => {
    if (!node.isTextblock) return true;
    for (const field of fieldsIn(node, position + 1)) {
      const untouched = field.given && field.text === field.given;
      if (untouched && !/[[\]\uff3b\uff3d]/.test(field.text)) found.push(field);
    }
    return false;
  });
  return found;
}

export interface FieldRange extends Range {
  id: unknown;
  label: string;
  given: string;
  text: string;
}

/** Returns the fields of a text block; a field may consist of several text nodes. */
export function fieldsIn(block: Inner, start: number): FieldRange[] {
  const fields: FieldRange[] = [];
  block.forEach((node, offset) => {
    const attrs = node.marks.find((mark) => mark.type.name === "field")?.attrs;
    if (!attrs) return;
    const from = start + offset;
    const text = node.text ?? "";
    const last = fields.at(-1);
    if (last?.to === from && last.id === attrs["id"]) {
      last.to = from + node.nodeSize;
      last.text += text;
      return;
    }
    const [label, given] = [String(attrs["label"]), String(attrs["default"])];
    fields.push({ from, to: from + node.nodeSize, id: attrs["id"], label, given, text });
  });
  return fields;
}

/** Returns the stop after (or before) a selection; wraps around at the end. */
export function neighbour(
  stops: readonly Stop[],
  selection: Range,
  direction: 1 | -1,
): Stop | undefined {
  const open = stops.filter((stop) => stop.open);
  if (direction === 1) {
    const here = (range: Range) => range.from === selection.from && range.to === selection.to;
    return stops.find((stop) => stop.from >= selection.from && !here(stop)) ?? open[0];
  }
  return stops.findLast((stop) => stop.to <= selection.from) ?? open.at(-1);
}

/** Returns the choices of a label such as `one / two / three`; at least two. */
export function choices(label: string): string[] {
  const parts = label.replace(/^\[|\]$/g, "").split(/\s+\/\s+|\|/);
  const named = parts.map((part) => part.trim()).filter(Boolean);
  return named.length > 1 ? named : [];
}

/** Returns the choices of the bracket or field that is selected as a whole. */
export function choicesAt(doc: Inner, { from, to }: Range): string[] {
  const $from = doc.resolve(from);
  const block = $from.parent;
  if (!block.isTextblock || to > $from.end()) return [];
  const start = $from.start();
  const text = block.textBetween(from - start, to - start);
  if (/^\[[^[\]]*\]$/.test(text)) return choices(text);
  const field = fieldsIn(block, start).find((field) => field.from === from && field.to === to);
  return field ? choices(field.label) : [];
}
