// The words of the apps: one catalogue a language, English beneath for what is missing.
import english from "../../../locales/en-US.json";
import { flatten, type Catalogue, type Words } from "./words";

/** The 17 codes of the interface document; the catalogue of each is its own file. */
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

let newest = 0;
let code = $state<string>("en-US");
let words = $state.raw<Words>(base);

export const locale = {
  get current(): string {
    return code;
  },
  codes: CODES as readonly string[],
  /** Switches every text at once; an unknown code is English. */
  async set(wanted: string): Promise<void> {
    const known = CODES.find((each) => each === wanted) ?? "en-US";
    const turn = (newest += 1);
    const load = files[`../../../locales/${known}.json`];
    const own = load ? flatten(await load()) : {};
    if (turn !== newest) return; // another one was chosen while this one was loaded
    words = { ...base, ...own };
    code = known;
    document.documentElement.lang = known;
  },
};

type Params = Readonly<Record<string, string | number>>;

/** The form of a key that its `count` asks for, in a language with as many forms as it has. */
function formFor(key: string, count: string | number | undefined): string | undefined {
  if (typeof count !== "number") return undefined;
  const form = new Intl.PluralRules(code).select(count);
  return words[`${key}.${form}`] ?? words[`${key}.other`];
}

/** The text of a key ('area.name'); `{name}` in it stands for a parameter. */
export function t(key: string, params: Params = {}): string {
  const text = words[key] ?? formFor(key, params["count"]) ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = params[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? new Intl.NumberFormat(code).format(value) : value;
  });
}
