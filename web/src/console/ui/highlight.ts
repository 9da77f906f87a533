// Colours text: YAML, JSON, Python and HL7, by line. Not a parser; the text stays as it is.

export interface Part {
  text: string;
  kind: "" | "key" | "string" | "number" | "keyword" | "comment" | "separator" | "segment";
}
export type Language = "hl7" | "yaml" | "json" | "python" | "text";

const YAML =
  /(?<comment>(?:^|\s)#.*$)|(?<key>[\w.-]+(?=\s*:(?:\s|$)))|(?<string>"(?:[^"\\]|\\.)*"|'[^']*')|(?<number>(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.-]))|(?<keyword>(?<=[:,[{-]\s*)(?:true|false|null)(?=\s*(?:[,}\]#]|$)))/g;
const JSON_PARTS =
  /(?<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?<string>"(?:[^"\\]|\\.)*")|(?<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\btrue\b|\bfalse\b|\bnull\b)/g;
const PYTHON =
  /(?<comment>#.*$)|(?<string>(?:\b[bfruBFRU]{1,2})?(?:"""(?:.*?"""|.*$)|'''(?:.*?'''|.*$)|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?))|(?<key>(?<=\b(?:def|class)\s+)\w+)|(?<keyword>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)|(?<number>(?<![\w.])\d+(?:\.\d+)?\b)/g;
const HL7 = /(?<segment>^[A-Z][A-Z0-9]{2}(?=[|]|$))|(?<separator>[|^~\\&]+)/g;
const PATTERNS: Readonly<Record<Language, RegExp | null>> = {
  yaml: YAML,
  json: JSON_PARTS,
  python: PYTHON,
  hl7: HL7,
  text: null,
};

export function highlight(line: string, language: Language): Part[] {
  const pattern = PATTERNS[language];
  if (!pattern) return [{ text: line, kind: "" }];
  const parts: Part[] = [];
  let at = 0;
  for (const match of line.matchAll(pattern)) {
    if (match.index > at) parts.push({ text: line.slice(at, match.index), kind: "" });
    const kind = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0];
    parts.push({ text: match[0], kind: (kind ?? "") as Part["kind"] });
    at = match.index + match[0].length;
  }
  if (at < line.length || parts.length === 0) parts.push({ text: line.slice(at), kind: "" });
  return parts;
}

/** Colours lines that follow each other: a string of Python may span several. */
export function highlightLines(lines: readonly string[], language: Language): Part[][] {
  if (language !== "python") return lines.map((line) => highlight(line, language));
  let open = "";
  return lines.map((line) => {
    const end = open ? line.indexOf(open) : 0;
    if (end < 0) return [{ text: line, kind: "string" }];
    const at = open ? end + open.length : 0;
    const parts = at < line.length || at === 0 ? highlight(line.slice(at), language) : [];
    if (at > 0) parts.unshift({ text: line.slice(0, at), kind: "string" });
    open =
      /^\w*("""|''')(?!.*\1$)/.exec(at > 0 && parts.length === 1 ? "" : lastString(parts))?.[1] ??
      "";
    return parts;
  });
}

function lastString(parts: readonly Part[]): string {
  const last = parts.at(-1);
  return last?.kind === "string" ? last.text : "";
}
