// Brackets `[…]` in a document: where they are, and which comes next. A template's open fields
// read as brackets, so what is typed, dictated or filled in by a template is found alike.
import type { Node as Inner } from "@tiptap/pm/model";

export interface Range {
  from: number;
  to: number;
}

const BRACKET = /\[[^[\]]*\]/g;

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
    if (text.includes("[")) {
      for (const range of bracketsIn(text)) {
        found.push({ from: position + 1 + range.from, to: position + 1 + range.to });
      }
    }
    return false;
  });
  return found;
}

/** Returns every bracket of a document. */
export function allBrackets(doc: Inner): Range[] {
  return bracketsBetween(doc, 0, doc.content.size);
}

/** Returns the bracket after (or before) a selection; past the end it begins anew. */
export function neighbour(
  brackets: readonly Range[],
  selection: Range,
  direction: 1 | -1,
): Range | undefined {
  if (direction === 1) {
    const here = (each: Range) => each.from === selection.from && each.to === selection.to;
    return brackets.find((each) => each.from >= selection.from && !here(each)) ?? brackets[0];
  }
  return brackets.findLast((each) => each.to <= selection.from) ?? brackets.at(-1);
}

/** Returns the choices that a label offers: `one / two / three`, two at least. */
export function choices(label: string): string[] {
  const parts = label.replace(/^\[|\]$/g, "").split(/\s+\/\s+|\|/);
  const named = parts.map((each) => each.trim()).filter(Boolean);
  return named.length > 1 ? named : [];
}
