// The context of the cursor in a definition: the path of keys to it, and whether a key or a value is
// expected. It works on plain text, because an incomplete line is not valid YAML.

export type KeyStep = string | number;

export interface Context {
  /** The keys and list indexes that lead to the cursor. */
  path: KeyStep[];
  /** What is permitted here: a key of the mapping at `path`, a value, or either. */
  expects: "key" | "value" | "either";
  /** The word before the cursor and its start position. */
  word: string;
  from: number;
}

const KEY = /^("[^"]*"|'[^']*'|[^\s#:{}[\],&*!|>'"%@`][^:{}[\],]*?)\s*:(?=\s|$)/;
const ITEM = /^-(\s+|$)/;

interface Line {
  indent: number;
  /** The list items and keys that the line opens, each with its column. */
  steps: { step: KeyStep; column: number }[];
  rest: string;
  restAt: number;
}

/** Returns the context of a position in a text. */
export function contextAt(text: string, position: number): Context {
  const before = text.slice(0, position);
  const start = flowStart(before);
  const lineAt = before.lastIndexOf("\n", (start ?? position) - 1) + 1;
  const line = read(before.slice(lineAt));
  const parents = parentsOf(before.slice(0, lineAt), line);
  const own = line.steps.map((step) => step.step);
  const at = lineAt + line.restAt;
  if (start === null) return block([...parents, ...own], line, at);
  return flow([...parents, ...own], before.slice(start), start);
}

function block(path: KeyStep[], line: Line, at: number): Context {
  const last = line.steps.at(-1);
  const word = line.rest;
  const expects = last === undefined ? "key" : typeof last.step === "number" ? "either" : "value";
  return { path, expects, word, from: at };
}

/** Handles a cursor inside brackets (flow style). */
function flow(path: KeyStep[], text: string, start: number): Context {
  const open: { kind: string; step: KeyStep | null; count: number }[] = [];
  let word = "";
  let from = start;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string;
    const top = open.at(-1);
    if (quote) {
      if (character === quote) quote = "";
      word += character;
    } else if ((character === '"' || character === "'") && word === "") {
      quote = character;
      word = character;
    } else if (character === "{" || character === "[") {
      open.push({ kind: character, step: character === "[" ? 0 : null, count: 0 });
      word = "";
      from = start + at + 1;
    } else if (character === "}" || character === "]") {
      open.pop();
      word = "";
      from = start + at + 1;
    } else if (top && character === ",") {
      top.count += 1;
      top.step = top.kind === "[" ? top.count : null;
      word = "";
      from = start + at + 1;
    } else if (top?.kind === "{" && character === ":" && /\s|^$/.test(text[at + 1] ?? "")) {
      top.step = bare(word.trim());
      word = "";
      from = start + at + 1;
    } else if (/\s/.test(character) && word === "") {
      from = start + at + 1;
    } else {
      word += character;
    }
  }
  const inner = open.flatMap((level) => (level.step === null ? [] : [level.step]));
  const top = open.at(-1);
  const expects = top?.kind === "[" ? "either" : top?.step === null ? "key" : "value";
  return { path: [...path, ...inner], expects, word, from };
}

/** Returns the start of the outermost bracket that is open; null if none is. */
function flowStart(text: string): number | null {
  let depth = 0;
  let start: number | null = null;
  let quote = "";
  let fresh = true;
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string;
    if (quote) {
      if (character === quote) quote = "";
    } else if (character === "#" && (at === 0 || /\s/.test(text[at - 1] as string))) {
      const end = text.indexOf("\n", at);
      if (end < 0) break;
      at = end;
      fresh = true;
      continue;
    } else if ((character === '"' || character === "'") && fresh) {
      quote = character;
    } else if ((character === "{" || character === "[") && fresh) {
      if (depth++ === 0) start = at;
      continue;
    } else if ((character === "}" || character === "]") && depth > 0) {
      if (--depth === 0) start = null;
    }
    fresh = /[\s,]/.test(character);
  }
  return start;
}

function read(text: string): Line {
  const indent = text.length - text.trimStart().length;
  const steps: Line["steps"] = [];
  let column = indent;
  let rest = text.slice(indent);
  for (let item = ITEM.exec(rest); item; item = ITEM.exec(rest)) {
    steps.push({ step: 0, column });
    column += item[0].length;
    rest = rest.slice(item[0].length);
  }
  const key = KEY.exec(rest);
  if (key) {
    steps.push({ step: bare(key[1] as string), column });
    const blank = /^\s*/.exec(rest.slice(key[0].length))?.[0].length ?? 0;
    column += key[0].length + blank;
    rest = rest.slice(key[0].length + blank);
  }
  return { indent, steps, rest, restAt: column };
}

/** Finds the parent keys of a line by indentation. */
function parentsOf(text: string, line: Line): KeyStep[] {
  const found: KeyStep[] = [];
  let limit = line.indent;
  let item = line.steps[0]?.step === 0;
  for (const row of text.split("\n").reverse()) {
    if (!row.trim() || row.trimStart().startsWith("#")) continue;
    const above = read(row);
    const last = above.steps.at(-1);
    if (typeof last?.step === "string" && above.rest && !above.rest.startsWith("#")) {
      // A key with a value on its line has no children; its list item may have some.
      above.steps.pop();
    }
    const taken = above.steps.filter((one) => {
      const list = item && one.column === limit && typeof one.step === "string";
      return one.column < limit || list;
    });
    if (taken.length === 0) continue;
    found.unshift(...taken.map((one) => one.step));
    limit = taken[0]?.column ?? 0;
    item = taken[0]?.step === 0;
    if (limit === 0 && !item) break;
  }
  return found;
}

const bare = (key: string) => key.replace(/^(["'])(.*)\1$/, "$2");
