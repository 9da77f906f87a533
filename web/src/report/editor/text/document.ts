// The document that a report's content is, as the engine speaks it (rules/document.py).

export type MarkName = "bold" | "italic" | "underline" | "suggested";
export const MARKS: readonly MarkName[] = ["bold", "italic", "underline", "suggested"];

export interface TextRun {
  type: "text";
  text: string;
  marks?: MarkName[];
}

/** `[label]` while it is open, its value once it is filled. */
export interface FieldRun {
  type: "field";
  label: string;
  value: string;
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
  items: Inline[][];
}

export type Block = Section | Paragraph | List;

export interface ReportDocument {
  type: "doc";
  content: Block[];
}

export const EMPTY: ReportDocument = { type: "doc", content: [] };

/** Returns what a run reads as; an open field reads as its `[label]`. */
export function runText(run: Inline): string {
  return run.type === "text" ? run.text : run.value || `[${run.label}]`;
}

export function inlineText(content: readonly Inline[]): string {
  return content.map(runText).join("");
}

/** Returns the lines of a block: a list has one for each item. */
export function blockLines(block: Block): string[] {
  if (block.type === "section") return [block.title];
  if (block.type === "paragraph") return [inlineText(block.content)];
  return block.items.map((item, index) => {
    return (block.ordered ? `${index + 1}. ` : "- ") + inlineText(item);
  });
}

/** Returns the text alone, as the engine derives it. */
export function plainText(document: ReportDocument): string {
  return document.content.flatMap(blockLines).join("\n");
}

/** Makes a document of plain text, a paragraph a line. */
export function fromText(text: string): ReportDocument {
  if (!text) return EMPTY;
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const content = lines.map((line): Paragraph => {
    return { type: "paragraph", content: line ? [{ type: "text", text: line }] : [] };
  });
  return { type: "doc", content };
}

/** Returns a document's one spelling: runs joined, empty runs left out, never without a block. */
export function canonical(document: ReportDocument): string {
  const content = document.content.length ? document.content : [{ type: "paragraph", content: [] }];
  return JSON.stringify((content as Block[]).map(canonicalBlock));
}

function canonicalBlock(block: Block): unknown {
  if (block.type === "section") return ["section", block.title];
  if (block.type === "paragraph") return ["paragraph", canonicalRuns(block.content)];
  return ["list", block.ordered, block.items.map(canonicalRuns)];
}

function canonicalRuns(runs: readonly Inline[] = []): unknown[] {
  const joined: unknown[][] = [];
  for (const run of runs) {
    if (run.type === "field") {
      joined.push(["field", run.label, run.value]);
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
