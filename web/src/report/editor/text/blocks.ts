// Turning lines into headings, paragraphs and list items, and back. A line is a text block: a
// section, a paragraph, or one item of a list; neighbours of one list kind stand in one list.
import type { Fragment, Node as Inner, NodeType, Schema } from "@tiptap/pm/model";
import { TextSelection, type EditorState, type Transaction } from "@tiptap/pm/state";

export type LineKind = "section" | "paragraph" | "bulletList" | "orderedList";

interface Line {
  kind: LineKind;
  content: Fragment;
  selected: boolean;
}

/** Returns the kind of the line that a selection begins in. */
export function kindAt(state: EditorState): LineKind {
  return state.selection.$from.node(1).type.name as LineKind;
}

/** Returns a transaction that makes the selected lines `kind`, or paragraphs if they all are. */
export function toggleKind(state: EditorState, kind: LineKind): Transaction {
  const range = topRange(state);
  const lines = linesBetween(state, range);
  const chosen = lines.filter((each) => each.selected);
  const wanted = chosen.every((each) => each.kind === kind) ? "paragraph" : kind;
  return replaceLines(state, range, lines, wanted);
}

/** Returns a transaction that makes the selected lines `kind`, whatever they are. */
export function setKind(state: EditorState, kind: LineKind): Transaction {
  const range = topRange(state);
  return replaceLines(state, range, linesBetween(state, range), kind);
}

interface TopRange {
  from: number;
  to: number;
  first: number;
  last: number;
}

function topRange(state: EditorState): TopRange {
  const { $from, $to } = state.selection;
  return { from: $from.before(1), to: $to.after(1), first: $from.index(0), last: $to.index(0) };
}

function linesBetween(state: EditorState, range: TopRange): Line[] {
  const { $from, $to } = state.selection;
  const lines: Line[] = [];
  for (let index = range.first; index <= range.last; index += 1) {
    const block = state.doc.child(index);
    const kind = block.type.name as LineKind;
    if (block.isTextblock) {
      lines.push({ kind, content: block.content, selected: true });
      continue;
    }
    block.forEach((item, _offset, number) => {
      const before = index === range.first && number < $from.index(1);
      const after = index === range.last && number > $to.index(1);
      lines.push({ kind, content: item.content, selected: !before && !after });
    });
  }
  return lines;
}

function replaceLines(
  state: EditorState,
  range: TopRange,
  lines: readonly Line[],
  wanted: LineKind,
): Transaction {
  const changed = lines.map((each) => (each.selected ? { ...each, kind: wanted } : each));
  const blocks = blocksOf(state.schema, changed);
  const tr = state.tr.replaceWith(range.from, range.to, blocks);
  const { anchor, head } = state.selection;
  const place = placeInLines(state, range, blocks);
  return tr.setSelection(TextSelection.create(tr.doc, place(anchor), place(head))).scrollIntoView();
}

function blocksOf(schema: Schema, lines: readonly Line[]): Inner[] {
  const blocks: Inner[] = [];
  for (const line of lines) {
    const type = schema.nodes[line.kind] as NodeType;
    if (type.isTextblock) {
      blocks.push(type.create(null, fitting(schema, type, line.content)));
      continue;
    }
    const item = (schema.nodes["listItem"] as NodeType).create(null, line.content);
    const last = blocks.at(-1);
    if (last?.type === type) blocks[blocks.length - 1] = last.copy(last.content.addToEnd(item));
    else blocks.push(type.create(null, item));
  }
  return blocks;
}

/** A heading bears no marks. */
function fitting(schema: Schema, type: NodeType, content: Fragment): Inner | Fragment | null {
  if (type.name !== "section") return content;
  const text = content.textBetween(0, content.size);
  return text ? schema.text(text) : null;
}

/** Returns where a position of the old lines is in the new ones: same line, same offset. */
function placeInLines(state: EditorState, range: TopRange, blocks: readonly Inner[]) {
  const starts: number[] = [];
  let at = range.from;
  for (const block of blocks) {
    if (block.isTextblock) starts.push(at + 1);
    else block.forEach((_item, offset) => starts.push(at + 1 + offset + 1));
    at += block.nodeSize;
  }
  return (position: number): number => {
    const $position = state.doc.resolve(position);
    let line = 0;
    for (let index = range.first; index < $position.index(0); index += 1) {
      const block = state.doc.child(index);
      line += block.isTextblock ? 1 : block.childCount;
    }
    if (!state.doc.child($position.index(0)).isTextblock) line += $position.index(1);
    return (starts[line] ?? range.from + 1) + $position.parentOffset;
  };
}
