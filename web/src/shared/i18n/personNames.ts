// Names of persons of DICOM (PN) and HL7 (XPN), in the order of the current language.
import { locale } from "./catalogue.svelte";

const HANGUL = /\p{Script=Hangul}/u;
const EAST_ASIAN = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
const PREFIX = /^(?:dr|prof|mr|mrs|ms|miss|mx|rev|sir|herr|frau|hr|fr|mme|m|sr|sra|dhr|mevr)\b\.?/i;
const SUFFIX = /^(?:jr|sr|junior|senior|i{1,3}|iv|v|esq|md|m\.d|phd|ph\.d|rn|dds)\b\.?/i;

/**
 * Formats a name: `DOE^JANE^M^DR^JR` as `DOE, DR JANE M, JR`, and several representations
 * (`A=I=P`) as the one of the language and another one beside it.
 */
export function formatName(text: string | undefined, language = locale.current): string {
  const groups = (text ?? "").split("=").slice(0, 3).map(nameOf).filter(Boolean);
  const [first, ...others] = [...new Set(groups)].sort(
    (one, other) => rank(one, language) - rank(other, language),
  );
  return others[0] ? `${first} (${others[0]})` : (first ?? "");
}

/** The script of the language first; beside it Latin letters, or else characters. */
function rank(name: string, language: string): number {
  const eastAsian = EAST_ASIAN.test(name);
  if (language.startsWith("ko") && HANGUL.test(name)) return 0;
  if (/^(?:ja|zh|ko)/.test(language)) return /\p{Script=Han}/u.test(name) ? 1 : eastAsian ? 3 : 2;
  return !eastAsian ? 1 : /\p{Script=Han}/u.test(name) ? 2 : 3;
}

function nameOf(group: string): string {
  const parts = group.split("^").map((part) => (part.split("&")[0] ?? "").trim());
  // A text with an ampersand and no components is one name.
  if (parts.length < 2) return group.trim();
  const [family = "", given = "", middle = "", fourth = "", fifth = "", ...more] = parts;
  // HL7 has suffix and prefix the other way round.
  const swapped = SUFFIX.test(fourth) || (PREFIX.test(fifth) && !PREFIX.test(fourth));
  const [prefix, suffix] = swapped ? [fifth, fourth] : [fourth, fifth];
  const own = [prefix, given, middle].filter(Boolean).join(" ");
  const after = [suffix, ...more].filter(Boolean);
  if (EAST_ASIAN.test(group)) return [family, own, ...after].filter(Boolean).join(" ");
  return [family, own, ...after].filter(Boolean).join(", ");
}
