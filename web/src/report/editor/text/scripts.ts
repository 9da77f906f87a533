// Superscripts and subscripts as characters of plain text: a report is sent as text too, where
// `10<sup>9</sup>/l` must not become `109/l`.

const pairs = (plain: string, raised: string): Map<string, string> =>
  new Map([...plain].map((character, index) => [character, [...raised][index] as string]));

const RAISED = pairs("0123456789+-−–=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁼⁽⁾ⁿⁱ");
const LOWERED = pairs("0123456789+-−–=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋₌₍₎");
/** Endings that are raised by style alone: 1st, 2e, 3ème, nº, ™. */
const ORDINAL = /^(?:st|nd|rd|th|e|er|re|ère|ème|eme|nde?|o|a|os|as|º|ª|°|™|®|©)$/i;

/** Returns raised text as characters; `^` marks what has no raised characters. */
export function superscript(text: string): string {
  const plain = text.trim();
  if (!plain || ORDINAL.test(plain)) return plain;
  return translated(plain, RAISED) ?? (plain.length === 1 ? `^${plain}` : marked(plain));
}

/** `10^0.5`, but `x^(a+1)`. */
const marked = (text: string): string =>
  /^[-+−]?[\p{L}\p{N}.,]+$/u.test(text) ? `^${text}` : `^(${text})`;

/** Returns lowered text as characters; letters stay as they are: SUVmax. */
export function subscript(text: string): string {
  const plain = text.trim();
  return translated(plain, LOWERED) ?? plain;
}

function translated(text: string, table: ReadonlyMap<string, string>): string | null {
  const found = [...text].map((character) => table.get(character));
  return found.every((one) => one !== undefined) ? found.join("") : null;
}
