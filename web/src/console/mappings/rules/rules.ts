// The rules of a definition as the form reads and changes them.
import type { Target } from "../../data/api-types";

/** A part of a rule as it is written in YAML; all scalars are texts. */
export type Tree = string | null | readonly Tree[] | { readonly [key: string]: Tree };
export type Mapping = Readonly<Record<string, Tree>>;

export interface OutlineRule {
  target: string;
  file: string;
  line: number;
  /** It is in an included file: a change writes it into the definition's own file. */
  inherited: boolean;
  /** Of a written field: the loops and conditions around its segment. */
  within: readonly string[];
  words: string;
  /** The sources, counted as changes count them. */
  parts: readonly Tree[];
  /** The modifiers of the rule. */
  own: Mapping;
}

export type Change = { kind: string } & Readonly<Record<string, unknown>>;

const FORMS = /^(?:tag|meta|app|order|visit|visit-value|field):|^prior_(?:mrn|name)$/;
/** False: the rule is written in YAML only. */
export const hasForm = (target: string): boolean => FORMS.test(target);
export const isField = (target: string): boolean => target.startsWith("field:");

export const isMapping = (tree: Tree | undefined): tree is Mapping =>
  typeof tree === "object" && tree !== null && !Array.isArray(tree);

const KINDS = ["from", "first", "all", "const", "echo", "value"] as const;
const OTHERS = ["join", "age", "hook", "repeat"] as const;
export type SourceKind = "path" | "first" | "all" | "const" | "echo" | "parts" | "other";

export interface Source {
  kind: SourceKind;
  /** What is read or written; of `parts`, the components. */
  text: string;
  parts: readonly string[];
  modifiers: Mapping;
}

/** A source as the form shows it; `other`: it is changed in YAML. */
export function sourceOf(tree: Tree, written: boolean): Source {
  const other: Source = { kind: "other", text: yamlOf(tree), parts: [], modifiers: {} };
  if (typeof tree === "string") return { ...other, kind: written ? "const" : "path", text: tree };
  if (Array.isArray(tree)) {
    const all = tree as readonly Tree[];
    const texts = all.filter((part) => typeof part === "string");
    return written && texts.length === all.length
      ? { ...other, kind: "parts", parts: texts }
      : other;
  }
  if (!isMapping(tree)) return other;
  const key = KINDS.find((name) => name in tree);
  const { [key ?? ""]: inner, ...modifiers } = tree;
  if (key === undefined || OTHERS.some((name) => name in tree)) return other;
  if (key === "value") return { ...sourceOf(inner ?? null, written), modifiers };
  if (typeof inner !== "string") return other;
  return { ...other, kind: key === "from" ? "path" : key, text: inner, modifiers };
}

/** The tree of a source; the reverse of `sourceOf`. */
export function treeOf(source: Source, written: boolean): Tree {
  const { kind, text, parts, modifiers } = source;
  const isPlain = Object.keys(modifiers).length === 0;
  if (written && kind !== "echo") {
    const value: Tree = kind === "parts" ? [...parts] : text;
    return isPlain ? value : { value, ...modifiers };
  }
  if (kind === "path") return isPlain ? text : { from: text, ...modifiers };
  return { [kind]: text, ...modifiers };
}

/** A tree on one line, for people; the server writes the YAML of the definition. */
export function yamlOf(tree: Tree): string {
  if (tree === null || tree === "") return '""';
  if (typeof tree === "string") return tree;
  if (!isMapping(tree)) return `[${tree.map(yamlOf).join(", ")}]`;
  const entries = Object.entries(tree).map(([key, below]) => `${key}: ${yamlOf(below)}`);
  return `{${entries.join(", ")}}`;
}

export const TESTS = ["is", "not", "matches", "present", "absent"] as const;
export interface Test {
  path: string;
  word: (typeof TESTS)[number];
  values: readonly string[];
}

/** The tests of a condition, all of which must hold; null: it is written in YAML. */
export function testsOf(when: Tree | undefined): Test[] | null {
  if (when === undefined || when === null) return [];
  if (!isMapping(when)) return null;
  const found: Test[] = [];
  for (const [path, test] of Object.entries(when)) {
    const words = isMapping(test) ? Object.entries(test) : [["is", test] as const];
    for (const [name, value] of words) {
      const word = name === "in" ? "is" : TESTS.find((one) => one === name);
      const values = textsOf(value);
      if (path === "any" || path === "not" || word === undefined || values === null) return null;
      const isTrue = (values[0] ?? "true").toLowerCase() === "true";
      if ((word === "present" || word === "absent") && !isTrue) return null;
      found.push({ path, word, values: word === "present" || word === "absent" ? [] : values });
    }
  }
  return found;
}

function textsOf(tree: Tree): string[] | null {
  if (typeof tree === "string") return [tree];
  if (tree === null || isMapping(tree)) return null;
  const texts = tree.filter((item) => typeof item === "string");
  return texts.length === tree.length ? texts : null;
}

/** The condition that has these tests; null without one. */
export function whenOf(tests: readonly Test[]): Tree {
  if (tests.length === 0) return null;
  const found: Record<string, Tree> = {};
  for (const { path, word, values } of tests) {
    const value: Tree = values.length === 1 ? (values[0] ?? "") : [...values];
    const test: Tree =
      word === "is" ? value : { [word]: word === "present" || word === "absent" ? "true" : value };
    const known = found[path];
    const both = (tree: Tree): Mapping => (isMapping(tree) ? tree : { is: tree });
    found[path] = known === undefined ? test : { ...both(known), ...both(test) };
  }
  return found;
}

/** The paths by which a rule can read a place: of its order, one repetition, one kind of number. */
export function pathsOf(place: string, textAt: (place: string) => string): string[] {
  const path = place.replace(/^([A-Z][A-Z0-9]{2})\[\d+\]/, "$1"); // rules read the segments of one order
  const repetition = /^(.+-\d+)\[(\d+)\](.*)$/.exec(path);
  if (!repetition) return [path];
  const [, field = "", , rest = ""] = repetition;
  const kind = textAt(`${place.replace(/\.[\d.]+$/, "")}.5`);
  const isNumber = /^(?:PID-[234]|PID-18|MRG-\d)$/.test(field) && /^\w+$/.test(kind);
  return [...(isNumber ? [`${field}[CX-5=${kind}]${rest}`] : []), path, `${field}${rest}`];
}

/** A code of the message that a code table translates for a value. */
export interface SeenCode {
  table: string;
  code: string;
}

/** The codes that the sources of a value looked up; a refused one has no step, but `table` of its rule. */
export function codesOf(target: Target, table = ""): SeenCode[] {
  const found = new Map<string, SeenCode>();
  const note = (name: string, code: string) => {
    if (name && code) found.set(`${name} ${code}`, { table: name, code });
  };
  for (const { raw, steps, outcome } of target.sources) {
    let before = raw;
    for (const step of [...steps, ...target.steps]) {
      note(/^codes (.+)$/.exec(step.name)?.[1] ?? "", before);
      before = step.value || before;
    }
    if (outcome === "not in code table" && !steps.some((step) => step.name.startsWith("codes ")))
      note(table, before);
  }
  return [...found.values()];
}

/** The code table of a rule, or of its first source that has one. */
export function tableOf(rule: OutlineRule | undefined): string {
  const all = [rule?.own, ...(rule?.parts ?? [])].map((tree) => isMapping(tree) && tree["codes"]);
  return all.find((name) => typeof name === "string") || "";
}

/** The values of a code table by code, as inbound rules look them up: in any case, trimmed. */
export function entriesOf(csv: string): Map<string, string> {
  const rows = csv
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "")
    .map(cellsOf);
  const header = (rows[0] ?? []).map((cell) => cell.toLowerCase());
  const [code, value] = [header.indexOf("code"), header.indexOf("value")];
  const entries = rows.slice(1).map((row) => [(row[code] ?? "").toUpperCase(), row[value] ?? ""]);
  return new Map(code < 0 || value < 0 ? [] : (entries as [string, string][]).reverse());
}

function cellsOf(line: string): string[] {
  const cells = line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g);
  return [...cells].map(([, quoted, bare]) => (quoted?.replaceAll('""', '"') ?? bare ?? "").trim());
}

/** The names of the code tables among files. */
export const tablesOf = (files: readonly string[]): string[] =>
  files.flatMap((file) => /^codes\/(.+)\.csv$/.exec(file)?.slice(1, 2) ?? []).sort();
