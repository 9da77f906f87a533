// Every catalogue is complete, with the same parameters; and no component contains literal texts.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "svelte/compiler";
import { describe, expect, it } from "vitest";
import { CODES } from ".";
import { flatten, type Catalogue, type FlatCatalogue } from "./flatten";

const WEB = join(import.meta.dirname, "../../..");
const LOCALES = join(WEB, "locales");
const read = (code: string): FlatCatalogue =>
  flatten(JSON.parse(readFileSync(join(LOCALES, `${code}.json`), "utf8")) as Catalogue);
const catalogues = new Map(CODES.map((code) => [code as string, read(code)]));
const english = catalogues.get("en-US") as FlatCatalogue;
const CONSOLE = join(WEB, "src", "console", "texts");
const consoleTexts = Object.assign(
  {},
  ...readdirSync(CONSOLE)
    .filter((file) => file.endsWith(".json"))
    .map((file) => flatten(JSON.parse(readFileSync(join(CONSOLE, file), "utf8")) as Catalogue)),
) as FlatCatalogue;

const FORMS = /\.(?:zero|one|two|few|many|other)$/;
const nameOf = (key: string) => key.replace(FORMS, "");
const names = (texts: FlatCatalogue) => [...new Set(Object.keys(texts).map(nameOf))].sort();
const counted = Object.keys(english)
  .filter((key) => key.endsWith(".other"))
  .map(nameOf);
const places = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((place) => place[1]).sort();

const sources = readdirSync(join(WEB, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => /\.(?:ts|svelte)$/.test(file) && !file.includes(".test."))
  .map((file) => [file, readFileSync(join(WEB, "src", file), "utf8")] as const);

it("each of the 17 codes has a catalogue, and there are no other files", () => {
  expect(readdirSync(LOCALES).sort()).toEqual(CODES.map((code) => `${code}.json`).sort());
  expect(CODES).toHaveLength(17);
});

describe.each([...catalogues])("%s", (code, texts) => {
  it("has exactly the keys of English", () => {
    expect(names(texts)).toEqual(names(english));
  });

  it("has the same parameters, and no empty text", () => {
    for (const [key, text] of Object.entries(texts)) {
      const wanted = english[key] ?? english[`${nameOf(key)}.other`] ?? "";
      expect([key, places(text)]).toEqual([key, places(wanted)]);
      expect(text.trim(), key).not.toBe("");
    }
  });

  it("has each plural form of its language", () => {
    const forms = new Intl.PluralRules(code).resolvedOptions().pluralCategories;
    for (const name of counted) {
      const own = Object.keys(texts).filter((key) => nameOf(key) === name && FORMS.test(key));
      expect(own.sort()).toEqual(forms.map((form) => `${name}.${form}`).sort());
    }
  });
});

it("other languages are translated", () => {
  for (const [code, texts] of catalogues) {
    if (code.startsWith("en")) continue;
    const long = Object.entries(english).filter(([, text]) => text.length > 24);
    expect([code, long.filter(([key, text]) => texts[key] === text)]).toEqual([code, []]);
  }
});

it("every key in the source exists in its catalogue", () => {
  const inConsole = (file: string) => file.startsWith("console");
  const used = sources.flatMap(([file, text]) =>
    [...text.matchAll(/\bt\(\s*["']([a-z_]+\.\w+)["']/g)].map((found) => [file, found[1]] as const),
  );
  expect(used.filter(([file]) => !inConsole(file)).length).toBeGreaterThan(200);
  expect(used.filter(([file]) => inConsole(file)).length).toBeGreaterThan(200);
  const appKeys = new Set(names(english));
  const consoleKeys = new Set([...Object.keys(consoleTexts), ...names(consoleTexts)]);
  const known = (file: string, key: string) => (inConsole(file) ? consoleKeys : appKeys).has(key);
  expect(used.filter(([file, key]) => !known(file, key as string))).toEqual([]);
});

interface Node {
  type: string;
  name?: string;
  data?: string;
  value?: unknown;
}

const TEXT_ATTRIBUTES = ["title", "aria-label", "placeholder", "alt", "label"];
const LETTERS = /\p{L}{2,}/u;

/** Returns the literal texts in a component's markup. */
function literals(node: unknown, found: string[] = []): string[] {
  if (Array.isArray(node)) node.forEach((child) => literals(child, found));
  else if (node && typeof node === "object") {
    const { type, name, data, value } = node as Node;
    if (type === "Script" || type === "StyleSheet") return found;
    if (type === "Text" && LETTERS.test(data ?? "")) found.push((data ?? "").trim());
    if (type === "Attribute" && !TEXT_ATTRIBUTES.includes(name ?? "")) {
      // Classes, ids and types are not shown to users.
      const parts = [value].flat().filter((part) => (part as Node | null)?.type !== "Text");
      return literals(parts, found);
    }
    for (const child of Object.values(node)) literals(child, found);
  }
  return found;
}

/** Names of keys and formats are the same in every language. */
const SAME_EVERYWHERE =
  /^(?:\(?(?:Ctrl|Shift|Alt|Tab|Enter)[^\p{Ll}]*\w*\)?|PDF|DOCX|RTF|HTML|JSON|CPT|ICD-10)$/u;

it("no component contains literal texts", () => {
  const found = sources
    .filter(([file]) => file.endsWith(".svelte"))
    .flatMap(([file, text]) =>
      literals(parse(text, { modern: true }).fragment)
        .filter((text) => !SAME_EVERYWHERE.test(text))
        .map((text) => `${file}: ${text}`),
    );
  expect(found).toEqual([]);
});
