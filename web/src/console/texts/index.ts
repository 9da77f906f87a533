// The texts of the console: English only, one catalogue for each area.
import { flatten, type Catalogue } from "../../shared/i18n/flatten";
import frame from "./frame.json";
import pages from "./pages.json";

type Params = Readonly<Record<string, string | number>>;

const texts: Record<string, string> = { ...flatten(pages), ...flatten(frame) };
const plural = new Intl.PluralRules("en");
const grouped = new Intl.NumberFormat("en-US");

/** Adds the catalogue of an area; the chunk of the area calls it before its pages are shown. */
export function addTexts(catalogue: Catalogue): void {
  Object.assign(texts, flatten(catalogue));
}

/** True if a catalogue has this key. */
export function hasText(key: string): boolean {
  return key in texts;
}

/**
 * Returns the text of a key ("area.name") with its `{name}` placeholders replaced.
 *
 * A key with the forms `one` and `other` is chosen by the parameter `count`. Numbers are grouped.
 */
export function t(key: string, params: Params = {}): string {
  const count = params["count"];
  const form = typeof count === "number" ? `${key}.${plural.select(count)}` : "";
  const text = texts[form] ?? texts[`${key}.other`] ?? texts[key] ?? key;
  return text
    .replace(/\{(\w+)\}/g, (whole, name: string) => {
      const value = params[name];
      if (value === undefined) return whole;
      return typeof value === "number" && name === "count" ? grouped.format(value) : String(value);
    })
    .trim();
}
