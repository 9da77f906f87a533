// The texts of the console. They are English only, so the report app's catalogues do not contain them.
import { flatten } from "../shared/i18n/flatten";
import english from "./en.json";

const texts = flatten(english);

/** Returns the text of a key ("area.name") with its `{name}` placeholders replaced. */
export function t(key: string, params: Readonly<Record<string, string | number>> = {}): string {
  const text = texts[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(params[name] ?? whole)).trim();
}
