// The console's words: English, for administrators; apart from the catalogues that readers load.
import { flatten } from "../shared/i18n/words";
import english from "./en.json";

const words = flatten(english);

/** The text of a key ('area.name'); `{name}` in it stands for a parameter. */
export function say(key: string, params: Readonly<Record<string, string | number>> = {}): string {
  const text = words[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(params[name] ?? whole)).trim();
}
