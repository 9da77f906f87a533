// The document format of a report's content, as in the service (engine/rules/text/document.py).
import { eastAsianWidth } from "get-east-asian-width";

export type MarkName = "bold" | "italic" | "underline" | "suggested";
export const MARKS: readonly MarkName[] = ["bold", "italic", "underline", "suggested"];

export interface TextRun {
  type: "text";
  text: string;
  marks?: MarkName[];
}

/**
 * `[label]` while open, the value once filled. `default` is the value that the template declares;
 * a field without one is a request.
 */
export interface FieldRun {
  type: "field";
  label: string;
  value: string;
  default?: string;
}

export type Inline = TextRun | FieldRun;

export interface Section {
  type: "section";
  title: string;
}

export interface Paragraph {
  type: "paragraph";
  content: Inline[];
}

export interface List {
  type: "list";
  ordered: boolean;
  items: ListItem[];
}

/** The text of an item, and then its sublists. */
export type ListItem = (Inline | List)[];

export interface TableCell {
  type: "tableCell" | "tableHeader";
  content: (Paragraph | List)[];
}

export interface TableRow {
  type: "tableRow";
  content: TableCell[];
}

/** A row that is shorter than others ends with empty cells. */
export interface Table {
  type: "table";
  content: TableRow[];
}

export type Block = Section | Paragraph | List | Table;

/** Limits of the service: nesting of lists and columns of a table. */
export const MAX_LIST_DEPTH = 9;
export const MAX_COLUMNS = 63;

export interface ReportDocument {
  type: "doc";
  content: Block[];
}

export const EMPTY: ReportDocument = { type: "doc", content: [] };

/** Returns the text of a run; an open field gives its `[label]`. */
export function runText(run: Inline): string {
  return run.type === "text" ? run.text : run.value || `[${run.label}]`;
}

export function inlineText(content: readonly Inline[]): string {
  return content.map(runText).join("");
}

/** Returns the text of a list item, and its sublists. */
export function itemParts(item: ListItem): { text: Inline[]; sublists: List[] } {
  const text = item.filter((part): part is Inline => part.type !== "list");
  return { text, sublists: item.filter((part): part is List => part.type === "list") };
}

/** Returns the rows of a table at equal length; none if there are no cells. */
export function tableGrid(table: Table): TableCell[][] {
  const width = Math.max(0, ...table.content.map((row) => row.content.length));
  if (!width) return [];
  return table.content.map(({ content }) => {
    const missing = Array.from({ length: width - content.length }, (): TableCell => {
      return { type: "tableCell", content: [] };
    });
    return [...content, ...missing];
  });
}

/** Returns the lines of a block: a list has one for each item, a table its rows in columns. */
export function blockLines(block: Block): string[] {
  if (block.type === "section") return [block.title];
  if (block.type === "paragraph") return [inlineText(block.content)];
  if (block.type === "table") return tableLines(block);
  return block.items.flatMap((item, index) => {
    const { text, sublists } = itemParts(item);
    const line = (block.ordered ? `${index + 1}. ` : "- ") + inlineText(text);
    return [line, ...sublists.flatMap(blockLines).map((line) => `  ${line}`)];
  });
}

const WIDEST_PADDED = 40;

const columns = (text: string): number => {
  const spaced = Array.from(text.replace(/[\p{Mn}\p{Me}]/gu, ""));
  return spaced.reduce((sum, character) => sum + eastAsianWidth(character.codePointAt(0) ?? 0), 0);
};

/** Aligns the columns by spaces. */
function tableLines(table: Table): string[] {
  const rows = tableGrid(table).map((row) => row.map(cellLines));
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.min(WIDEST_PADDED, Math.max(0, ...rows.flatMap((row) => row[column] ?? []).map(columns))),
  );
  return rows.flatMap((row) => {
    const height = Math.max(1, ...row.map((lines) => lines.length));
    return Array.from({ length: height }, (_, line) => {
      const cells = row.map((lines, column) => {
        const text = lines[line] ?? "";
        return text + " ".repeat(Math.max(0, (widths[column] ?? 0) - columns(text)));
      });
      return cells.join("  ").trimEnd();
    });
  });
}

function cellLines(cell: TableCell): string[] {
  const lines = cell.content.flatMap(blockLines);
  while (lines.length && !lines.at(-1)?.trim()) lines.pop();
  return lines;
}

/** Returns the plain text. `plain_text.json` has its cases, which the service passes too. */
export function plainText(document: ReportDocument): string {
  return document.content.map((block) => blockLines(block).join("\n")).join("\n");
}

/** Converts plain text to a document with one paragraph per line. */
export function fromText(text: string): ReportDocument {
  if (!text) return EMPTY;
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const content = lines.map((line): Paragraph => {
    return { type: "paragraph", content: line ? [{ type: "text", text: line }] : [] };
  });
  return { type: "doc", content };
}

/** Returns the canonical form of a document: runs joined, no empty runs, at least one block. */
export function canonical(document: ReportDocument): string {
  const content = document.content.length ? document.content : [{ type: "paragraph", content: [] }];
  return JSON.stringify((content as Block[]).map(canonicalBlock));
}

function canonicalBlock(block: Block): unknown {
  if (block.type === "section") return ["section", block.title];
  if (block.type === "paragraph") return ["paragraph", canonicalRuns(block.content)];
  if (block.type === "table")
    return ["table", tableGrid(block).map((row) => row.map(canonicalCell))];
  const items = block.items.map((item) => {
    const { text, sublists } = itemParts(item);
    return [canonicalRuns(text), ...sublists.map(canonicalBlock)];
  });
  return ["list", block.ordered, items];
}

function canonicalCell({ type, content }: TableCell): unknown {
  const blocks = content.length ? content : [{ type: "paragraph" as const, content: [] }];
  return [type, ...blocks.map(canonicalBlock)];
}

function canonicalRuns(runs: readonly Inline[] = []): unknown[] {
  const joined: unknown[][] = [];
  for (const run of runs) {
    if (run.type === "field") {
      joined.push(["field", run.label, run.value, run.default ?? ""]);
      continue;
    }
    if (!run.text) continue;
    const marks = MARKS.filter((mark) => run.marks?.includes(mark)).join();
    const last = joined[joined.length - 1];
    if (last && last[0] === "text" && last[2] === marks) last[1] = (last[1] as string) + run.text;
    else joined.push(["text", run.text, marks]);
  }
  return joined;
}
