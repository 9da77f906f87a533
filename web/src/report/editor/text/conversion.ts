// Converts between the service's document and the editor's, in both directions.
import type { JSONContent } from "@tiptap/core";
import type { Node as Inner } from "@tiptap/pm/model";
import {
  itemParts,
  MARKS,
  runText,
  tableGrid,
  type Block,
  type FieldRun,
  type Inline,
  type List,
  type ListItem,
  type Paragraph,
  type ReportDocument,
  type Table,
  type TableCell,
} from "./document";

let fields = 0;

/** Returns the editor's JSON of a document. */
export function toEditor(document: ReportDocument): JSONContent {
  const blocks = document.content.map(blockNode).filter((node) => node !== null);
  return { type: "doc", content: blocks.length ? blocks : [{ type: "paragraph" }] };
}

function blockNode(block: Block): JSONContent | null {
  if (block.type === "section") {
    return line("section", block.title ? [{ type: "text", text: block.title }] : []);
  }
  if (block.type === "paragraph") return line("paragraph", runNodes(block.content));
  if (block.type === "table") return tableNode(block);
  return listNode(block);
}

function listNode(list: List): JSONContent | null {
  if (!list.items.length) return null;
  const items = list.items.map((item) => {
    const { text, sublists } = itemParts(item);
    const below = sublists.map(listNode).filter((list) => list !== null);
    return { type: "listItem", content: [line("paragraph", runNodes(text)), ...below] };
  });
  return { type: list.ordered ? "orderedList" : "bulletList", content: items };
}

function tableNode(table: Table): JSONContent | null {
  const rows = tableGrid(table).map((row) => {
    return { type: "tableRow", content: row.map(cellNode) };
  });
  return rows.length ? { type: "table", content: rows } : null;
}

function cellNode({ type, content }: TableCell): JSONContent {
  const blocks = content.map(blockNode).filter((node) => node !== null);
  return { type, content: blocks.length ? blocks : [line("paragraph", [])] };
}

const line = (type: string, content: JSONContent[]): JSONContent =>
  content.length ? { type, content } : { type };

function runNodes(runs: readonly Inline[] = []): JSONContent[] {
  return runs.flatMap((run): JSONContent[] => {
    const text = runText(run);
    if (!text) return [];
    if (run.type === "field") {
      const attrs = { label: run.label, id: String(++fields), default: run.default ?? "" };
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
  if (node.type.name === "table") return tableOf(node);
  return partOf(node);
}

function partOf(node: Inner): Paragraph | List {
  if (node.type.name === "paragraph") return { type: "paragraph", content: runsOf(node) };
  const items: ListItem[] = [];
  node.forEach((item) => items.push(itemOf(item)));
  return { type: "list", ordered: node.type.name === "orderedList", items };
}

function itemOf(node: Inner): ListItem {
  const item: ListItem = [];
  node.forEach((child) => {
    if (child.isTextblock) item.push(...runsOf(child));
    else item.push(partOf(child) as List);
  });
  return item;
}

function tableOf(node: Inner): Table {
  const content = childrenOf(node).map((row) => {
    return { type: "tableRow" as const, content: childrenOf(row).map(cellOf) };
  });
  return { type: "table", content };
}

function cellOf(node: Inner): TableCell {
  const type = node.type.name === "tableHeader" ? "tableHeader" : "tableCell";
  return { type, content: childrenOf(node).map(partOf) };
}

const childrenOf = (node: Inner): Inner[] => Array.from(node.children);

/** An input method may split the text of a field into several nodes; they become one run. */
function runsOf(parent: Inner): Inline[] {
  const runs: Inline[] = [];
  let open: { id: unknown; run: FieldRun } | null = null;
  parent.forEach((node) => {
    const field = node.marks.find((mark) => mark.type.name === "field");
    const text = node.text ?? "";
    if (field) {
      if (open && open.id === field.attrs["id"]) open.run.value += text;
      else {
        const label = String(field.attrs["label"]);
        const given = String(field.attrs["default"]);
        const run: FieldRun = { type: "field", label, value: text };
        open = { id: field.attrs["id"], run: given ? { ...run, default: given } : run };
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
