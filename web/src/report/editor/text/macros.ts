// Finds the macro whose trigger is right before the caret.
import type { ReportDocument } from "./document";

export interface Macro {
  trigger: string;
  name: string;
  document: ReportDocument;
  own: boolean;
}

const BOUNDARY = /[\s([{"'“„«:;,]/;

/**
 * Returns the macro whose trigger is directly before the caret; the longest one if several match.
 * A trigger must be at the start of the line, or follow a space or an opening bracket.
 */
export function macroBefore(text: string, macros: readonly Macro[]): Macro | undefined {
  const fits = macros.filter((each) => {
    if (!text.endsWith(each.trigger)) return false;
    const before = text.charAt(text.length - each.trigger.length - 1);
    return before === "" || BOUNDARY.test(before);
  });
  return fits.sort((one, other) => other.trigger.length - one.trigger.length)[0];
}

/** A space after the trigger expands it if it begins with a symbol; otherwise Tab does. */
export function expandsBySpace(macro: Macro): boolean {
  return /^[^\p{L}\p{N}]/u.test(macro.trigger);
}
