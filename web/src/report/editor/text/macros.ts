// Finds the macro whose trigger is right before the caret.
import { inlineText, type Block, type ReportDocument } from "./document";

export interface Macro {
  trigger: string;
  name: string;
  document: ReportDocument;
  own: boolean;
}

const BOUNDARY = /[\s([{"'“„«:;,]/;

/**
 * Returns the macro whose trigger is directly before the caret, in upper or lower case; the longest
 * one if several match, and of those one with the same case. A trigger must be at the start of the
 * line, or follow a space or an opening bracket.
 */
export function macroBefore(text: string, macros: readonly Macro[]): Macro | undefined {
  const typed = (macro: Macro) => text.slice(-macro.trigger.length);
  const fits = macros.filter((macro) => {
    if (typed(macro).toLowerCase() !== macro.trigger.toLowerCase()) return false;
    const before = text.charAt(text.length - macro.trigger.length - 1);
    return before === "" || BOUNDARY.test(before);
  });
  const same = (macro: Macro) => Number(typed(macro) === macro.trigger);
  return fits.sort(
    (one, other) => other.trigger.length - one.trigger.length || same(other) - same(one),
  )[0];
}

const HEADING = /^([^[\]:]{1,80}):\s*$/;
const ITEM = /^(?:[-•*]|(\d{1,3})[.)]) +(?=\S)/;

/**
 * Returns the text that a macro inserts: as in templates, a line that ends with a colon is a
 * heading, and lines with `- ` or `1. ` are a list. A macro of one line stays as it is, so that the
 * user can write on.
 */
export function macroText(document: ReportDocument): ReportDocument {
  if (document.content.length < 2) return document;
  const content: Block[] = [];
  for (const block of document.content) {
    const [first] = block.type === "paragraph" ? block.content : [];
    const text = block.type === "paragraph" ? inlineText(block.content) : "";
    const item = first?.type === "text" ? ITEM.exec(first.text) : null;
    const title = HEADING.exec(text)?.[1]?.trim();
    if (block.type !== "paragraph" || !(title || item)) content.push(block);
    else if (title && block.content.every((run) => run.type === "text")) {
      content.push({ type: "section", title });
    } else if (item && first?.type === "text") {
      const rest = { ...first, text: first.text.slice(item[0].length) };
      const entry = [rest, ...block.content.slice(1)];
      const last = content.at(-1);
      const ordered = item[1] !== undefined;
      if (last?.type === "list" && last.ordered === ordered) last.items.push(entry);
      else content.push({ type: "list", ordered, items: [entry] });
    } else content.push(block);
  }
  return { type: "doc", content };
}

/** A space after the trigger expands it if it begins with a symbol; otherwise Tab does. */
export function expandsBySpace(macro: Macro): boolean {
  return /^[^\p{L}\p{N}]/u.test(macro.trigger);
}
