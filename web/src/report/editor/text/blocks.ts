// Changes the kind and the level of lines: sections, paragraphs and list items. The lines of
// a table cell stay in their cell; a table between selected lines does not change.
import { Fragment, type Node as Inner, type NodeType, type Schema } from "@tiptap/pm/model";
import { TextSelection, type EditorState, type Transaction } from "@tiptap/pm/state";
import { MAX_LIST_DEPTH } from "./document";

export type LineKind = "section" | "paragraph" | "bulletList" | "orderedList";

interface Line {
  kind: LineKind;
  /** The nesting level of a list item; 0 is the outermost list. */
  level: number;
  content: Fragment;
  /** The position of the text in the document. */
  start: number;
  selected: boolean;
  /** The table, if this entry is a table between lines. */
  block?: Inner;
}

interface BlockRange {
  from: number;
  to: number;
  blocks: { node: Inner; at: number }[];
  /** Whether the lines are in a table cell, which cannot contain sections. */
  inCell: boolean;
}

const LISTS: readonly string[] = ["bulletList", "orderedList"];
const isList = (kind: string): boolean => LISTS.includes(kind);

/** Returns the kind of the line that a selection begins in. */
export function kindAt(state: EditorState): LineKind {
  const { $from } = state.selection;
  for (let depth = $from.depth; depth > 0; depth -= 1) {
    const name = $from.node(depth).type.name;
    if (isList(name)) return name as LineKind;
  }
  return $from.parent.type.name === "section" ? "section" : "paragraph";
}

/** Returns a transaction that makes the selected lines `kind`, or paragraphs if they all are. */
export function toggleKind(state: EditorState, kind: LineKind): Transaction {
  const range = blockRange(state);
  const lines = linesOf(state, range);
  const chosen = lines.filter((line) => line.selected);
  const wanted = chosen.every((one) => one.kind === kind) ? "paragraph" : kind;
  return withKind(state, range, lines, wanted);
}

/** Returns a transaction that makes all selected lines `kind`. */
export function setKind(state: EditorState, kind: LineKind): Transaction {
  const range = blockRange(state);
  return withKind(state, range, linesOf(state, range), kind);
}

/** Returns a transaction that moves the selected items a level in or out; null if none can be moved. */
export function indent(state: EditorState, by: 1 | -1): Transaction | null {
  const range = blockRange(state);
  const lines = linesOf(state, range);
  const changed = lines.map((line, index) => {
    if (!line.selected || !isList(line.kind)) return line;
    const before = lines[index - 1];
    const deepest = before && isList(before.kind) ? before.level + 1 : 0;
    const level = Math.min(line.level + by, by > 0 ? deepest : line.level, MAX_LIST_DEPTH - 1);
    return { ...line, level: Math.max(0, level) };
  });
  if (changed.every((line, index) => line.level === lines[index]?.level)) return null;
  return replaceLines(state, range, lines, changed);
}

function withKind(
  state: EditorState,
  range: BlockRange,
  lines: readonly Line[],
  kind: LineKind,
): Transaction {
  const wanted = range.inCell && kind === "section" ? "paragraph" : kind;
  const changed = lines.map((line) => {
    if (!line.selected) return line;
    return { ...line, kind: wanted, level: isList(wanted) && isList(line.kind) ? line.level : 0 };
  });
  return replaceLines(state, range, lines, changed);
}

function blockRange(state: EditorState): BlockRange {
  const { $from, $to } = state.selection;
  let depth = $from.sharedDepth($to.pos);
  while (depth > 0 && !["tableCell", "tableHeader"].includes($from.node(depth).type.name))
    depth -= 1;
  const parent = $from.node(depth);
  const first = $from.index(depth);
  const last = Math.min($to.indexAfter(depth), parent.childCount) - 1;
  const blocks: BlockRange["blocks"] = [];
  parent.forEach((node, offset, index) => {
    if (index >= first && index <= Math.max(first, last)) {
      blocks.push({ node, at: $from.start(depth) + offset });
    }
  });
  const end = blocks.at(-1);
  const from = blocks[0]?.at ?? 0;
  return { from, to: end ? end.at + end.node.nodeSize : from, blocks, inCell: depth > 0 };
}

function linesOf(state: EditorState, range: BlockRange): Line[] {
  const { from, to } = state.selection;
  const lines: Line[] = [];
  const add = (node: Inner, at: number, kind: LineKind, level: number): void => {
    const start = at + 1;
    const selected = start + node.content.size >= from && start <= to;
    lines.push({ kind, level, content: node.content, start, selected });
  };
  const addList = (list: Inner, at: number, level: number): void => {
    list.forEach((item, offset) => {
      item.forEach((child, place) => {
        const position = at + 1 + offset + 1 + place;
        if (child.isTextblock) add(child, position, list.type.name as LineKind, level);
        else addList(child, position, level + 1);
      });
    });
  };
  for (const { node, at } of range.blocks) {
    const kind = node.type.name;
    if (node.isTextblock) add(node, at, kind as LineKind, 0);
    else if (isList(kind)) addList(node, at, 0);
    else {
      const nothing = { content: Fragment.empty, start: at, selected: false, level: 0 };
      lines.push({ ...nothing, kind: "paragraph", block: node });
    }
  }
  return lines;
}

function replaceLines(
  state: EditorState,
  range: BlockRange,
  before: readonly Line[],
  after: readonly Line[],
): Transaction {
  const blocks = blocksOf(state.schema, after);
  const tr = state.tr.replaceWith(range.from, range.to, blocks);
  const starts = startsOf(blocks, range.from);
  const place = (position: number): number => {
    const index = before.findLastIndex((one) => one.start <= position);
    return (starts[index] ?? range.from) + position - (before[index]?.start ?? position);
  };
  const { $anchor, $head } = state.selection;
  return tr
    .setSelection(
      TextSelection.between(tr.doc.resolve(place($anchor.pos)), tr.doc.resolve(place($head.pos))),
    )
    .scrollIntoView();
}

function blocksOf(schema: Schema, lines: readonly Line[]): Inner[] {
  const blocks: Inner[] = [];
  let items: Line[] = [];
  const close = (): void => {
    blocks.push(...listsOf(schema, items, 0));
    items = [];
  };
  for (const line of lines) {
    if (isList(line.kind)) {
      items.push(line);
      continue;
    }
    close();
    const type = schema.nodes[line.kind] as NodeType;
    blocks.push(line.block ?? type.create(null, fitting(schema, type, line.content)));
  }
  close();
  return blocks;
}

/** Builds the lists of one level; deeper items go into the item before them. */
function listsOf(schema: Schema, items: readonly Line[], level: number): Inner[] {
  const lists: Inner[] = [];
  let index = 0;
  while (index < items.length) {
    const line = items[index] as Line;
    let next = index + 1;
    while (next < items.length && (items[next] as Line).level > level) next += 1;
    const text = (schema.nodes["paragraph"] as NodeType).create(null, line.content);
    const below = listsOf(schema, items.slice(index + 1, next), level + 1);
    const item = (schema.nodes["listItem"] as NodeType).create(null, [text, ...below]);
    const type = schema.nodes[line.kind] as NodeType;
    const last = lists.at(-1);
    if (last?.type === type) lists[lists.length - 1] = last.copy(last.content.addToEnd(item));
    else lists.push(type.create(null, item));
    index = next;
  }
  return lists;
}

/** Returns content that fits a line of this type: a heading cannot contain marks. */
function fitting(schema: Schema, type: NodeType, content: Fragment): Inner | Fragment | null {
  if (type.name !== "section") return content;
  const text = content.textBetween(0, content.size);
  return text ? schema.text(text) : null;
}

/** Returns the start positions of the lines and tables, in document order. */
function startsOf(blocks: readonly Inner[], from: number): number[] {
  const starts: number[] = [];
  let at = from;
  for (const block of blocks) {
    if (block.type.name === "table") starts.push(at);
    else if (block.isTextblock) starts.push(at + 1);
    else {
      const inside = at + 1;
      block.descendants((node, position) => {
        if (node.isTextblock) starts.push(inside + position + 1);
      });
    }
    at += block.nodeSize;
  }
  return starts;
}
