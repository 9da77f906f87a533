// How inserted text joins the text around it: units, spaces, ends of sentences.

const UNIT =
  /(?:[mcµμd]?m[²³23]?|cc|[mcµμd]?[lL]|[mkµμ]?g|mg\/[dmlL]+|HU|SUV|bpm|ms|kPa|mmHg|cm\/s|m\/s|%|°|mSv|mGy)/u
    .source;
const UNIT_AT_END = new RegExp(`[\\d.,)]\\s*(${UNIT})$`, "u");
const UNIT_AT_START = new RegExp(`^\\s*(${UNIT})(?![\\p{L}\\p{N}²³/])`, "u");

/**
 * Returns the number of characters after an insertion that repeat its unit: `8 mm` in front of ` mm`,
 * or of another unit, which the unit of the measurement replaces.
 */
export function repeatedUnit(text: string, after: string): number {
  if (!UNIT_AT_END.test(text)) return 0;
  return UNIT_AT_START.exec(after)?.[0].length ?? 0;
}

/** Returns true if a unit follows: a field for a number. */
export const unitFollows = (after: string): boolean => UNIT_AT_START.test(after);

const OPENING = /[\s([{"'“„«‚¿¡/\u3000-\u303f\uff00-\uff60]$/u;
const CJK = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\u3000-\u303f\uff00-\uff60]/u;
const SENTENCE_END = /[.!?:;,…。！？：；，、][)"'”’»\]]*$/u;

/** Returns a sentence with the spaces, and the full stop before it, that its place needs. */
export function asSentence(text: string, before: string, after: string): string {
  const line = before.trimEnd();
  const stop = line && !SENTENCE_END.test(line) ? (CJK.test(line.slice(-1)) ? "。" : ".") : "";
  // A full stop belongs to the word before it: not after a space that is there already.
  const start = stop && line === before ? stop : "";
  return start + spaced(text, before + start, after);
}

/** Returns text with the spaces that separate it from the words around it. */
export function spaced(text: string, before: string, after: string): string {
  const joined = (one: string, other: string) => CJK.test(one) && CJK.test(other);
  const [last, first] = [before.slice(-1), after.slice(0, 1)];
  const left = last && !OPENING.test(before) && !joined(last, text.slice(0, 1)) && !CJK.test(last);
  const right = first && /[\p{L}\p{N}([]/u.test(first) && !CJK.test(text.slice(-1));
  return (left ? " " : "") + text + (right ? " " : "");
}
