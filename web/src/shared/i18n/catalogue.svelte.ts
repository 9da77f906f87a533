// The texts of the report app: one catalogue for each language; English replaces missing texts.
import english from "../../../locales/en-US.json";
import { flatten, type Catalogue, type FlatCatalogue } from "./flatten";

const DEFAULT = "en-US";
const files = import.meta.glob<Catalogue>(["../../../locales/*.json", "!**/en-US.json"], {
  import: "default",
});
const load = new Map(
  Object.entries(files).map(([path, read]) => [path.replace(/.*\/|\.json$/g, ""), read]),
);

/** The language codes of the report service interface: those with a file of texts. */
export const CODES: readonly string[] = [DEFAULT, ...load.keys()];

/** Each code with the name of the language in that language. */
export const LANGUAGES: readonly { code: string; name: string }[] = CODES.map((code) => ({
  code,
  name: new Intl.DisplayNames([code], { type: "language" }).of(code) ?? code,
}));

const base = flatten(english as Catalogue);

let latest = 0;
let code = $state(DEFAULT);
let texts = $state.raw<FlatCatalogue>(base);

export const locale = {
  get current(): string {
    return code;
  },
  /** Switches the language of all texts; an unknown code selects English. */
  async set(wanted: string): Promise<void> {
    const known = CODES.includes(wanted) ? wanted : DEFAULT;
    const request = (latest += 1);
    const own = flatten((await load.get(known)?.()) ?? {});
    if (request !== latest) return; // another language has been selected since
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
