// Between the engine's document and the editor's: one to one, in both directions.
import type { JSONContent } from "@tiptap/core";
import type { Node as Inner } from "@tiptap/pm/model";
import { MARKS, runText, type Block, type Inline, type ReportDocument } from "./document";

let fields = 0;

/** Returns the editor's JSON of a document. */
export function toEditor(document: ReportDocument): JSONContent {
  const blocks = document.content.map(blockNode).filter((each) => each !== null);
  return { type: "doc", content: blocks.length ? blocks : [{ type: "paragraph" }] };
}

function blockNode(block: Block): JSONContent | null {
  if (block.type === "section") {
    return line("section", block.title ? [{ type: "text", text: block.title }] : []);
  }
  if (block.type === "paragraph") return line("paragraph", runNodes(block.content));
  if (!block.items.length) return null;
  return {
    type: block.ordered ? "orderedList" : "bulletList",
    content: block.items.map((item) => line("listItem", runNodes(item))),
  };
}

const line = (type: string, content: JSONContent[]): JSONContent =>
  content.length ? { type, content } : { type };

function runNodes(runs: readonly Inline[] = []): JSONContent[] {
  return runs.flatMap((run): JSONContent[] => {
    const text = runText(run);
    if (!text) return [];
    if (run.type === "field") {
      const attrs = { label: run.label, id: String(++fields) };
      return [{ type: "text", text, marks: [{ type: "field", attrs }] }];
    }
    const marks = run.marks?.map((type) => ({ type }));
    return [marks?.length ? { type: "text", text, marks } : { type: "text", text }];
  });
}

/** Returns the document that the editor holds. */
export function fromEditor(doc: Inner): ReportDocument {
  const content: Block[] = [];
  doc.forEach((node) => content.push(blockOf(node)));
  return { type: "doc", content };
}

function blockOf(node: Inner): Block {
  if (node.type.name === "section") return { type: "section", title: node.textContent };
  if (node.type.name === "paragraph") return { type: "paragraph", content: runsOf(node) };
  const items: Inline[][] = [];
  node.forEach((item) => items.push(runsOf(item)));
  return { type: "list", ordered: node.type.name === "orderedList", items };
}

/** Text of one field may be cut into nodes (a composition): it is one run all the same. */
function runsOf(parent: Inner): Inline[] {
  const runs: Inline[] = [];
  let open: { id: unknown; run: { type: "field"; label: string; value: string } } | null = null;
  parent.forEach((node) => {
    const field = node.marks.find((mark) => mark.type.name === "field");
    const text = node.text ?? "";
    if (field) {
      if (open && open.id === field.attrs["id"]) open.run.value += text;
      else {
        const label = String(field.attrs["label"]);
        open = { id: field.attrs["id"], run: { type: "field", label, value: text } };
        runs.push(open.run);
      }
      return;
    }
    open = null;
    const marks = MARKS.filter((name) => node.marks.some((mark) => mark.type.name === name));
    runs.push(marks.length ? { type: "text", text, marks } : { type: "text", text });
  });
  for (const run of runs) {
    if (run.type === "field" && run.value === `[${run.label}]`) run.value = "";
  }
  return runs;
}
