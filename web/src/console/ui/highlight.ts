// Colours read-only text: YAML, JSON and HL7, one line at a time. Not a parser; the text stays as it is.

export interface Part {
  text: string;
  kind: "" | "key" | "string" | "number" | "comment" | "separator" | "segment";
}
export type Language = "hl7" | "yaml" | "json" | "text";

const YAML =
  /(?<comment>(?:^|\s)#.*$)|(?<key>[\w.-]+(?=\s*:(?:\s|$)))|(?<string>"(?:[^"\\]|\\.)*"|'[^']*')|(?<number>(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.-]))/g;
const JSON_PARTS =
  /(?<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?<string>"(?:[^"\\]|\\.)*")|(?<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\btrue\b|\bfalse\b|\bnull\b)/g;
const HL7 = /(?<segment>^[A-Z][A-Z0-9]{2}(?=[|]|$))|(?<separator>[|^~\\&]+)/g;
const PATTERNS: Readonly<Record<Language, RegExp | null>> = {
  yaml: YAML,
  json: JSON_PARTS,
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
