// The texts of the report app: one catalogue per language; English replaces missing texts.
import english from "../../../locales/en-US.json";
import { flatten, type Catalogue, type FlatCatalogue } from "./flatten";

/** The 17 language codes of the report service interface; each has its own catalogue file. */
export const CODES = [
  "en-US",
  "en-GB",
  "en-AU",
  "zh-CN",
  "zh-Hant",
  "nl-NL",
  "fr-FR",
  "fr-CA",
  "de-DE",
  "id-ID",
  "it-IT",
  "ja-JP",
  "ko-KR",
  "pl-PL",
  "pt-BR",
  "ro-RO",
  "es-ES",
] as const;

const files = import.meta.glob<Catalogue>(["../../../locales/*.json", "!**/en-US.json"], {
  import: "default",
});
const base = flatten(english as Catalogue);

let latest = 0;
let code = $state<string>("en-US");
let texts = $state.raw<FlatCatalogue>(base);

export const locale = {
  get current(): string {
    return code;
  },
  codes: CODES as readonly string[],
  /** Switches the language of all texts; an unknown code selects English. */
  async set(wanted: string): Promise<void> {
    const known = CODES.find((each) => each === wanted) ?? "en-US";
    const request = (latest += 1);
    const load = files[`../../../locales/${known}.json`];
    const own = load ? flatten(await load()) : {};
    if (request !== latest) return; // another language was selected meanwhile
    texts = { ...base, ...own };
    code = known;
    document.documentElement.lang = known;
  },
};

type Params = Readonly<Record<string, string | number>>;

/** Returns the plural form of a text for a `count` in the current language. */
function formFor(key: string, count: string | number | undefined): string | undefined {
  if (typeof count !== "number") return undefined;
  const form = new Intl.PluralRules(code).select(count);
  return texts[`${key}.${form}`] ?? texts[`${key}.other`];
}

/** Returns the text of a key ("area.name") with its `{name}` placeholders replaced. */
export function t(key: string, params: Params = {}): string {
  const text = texts[key] ?? formFor(key, params["count"]) ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = params[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? new Intl.NumberFormat(code).format(value) : value;
  });
}
