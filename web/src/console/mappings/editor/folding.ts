// What can be folded: a run of comment lines, and the indented lines below a key.

export interface Range {
  from: number;
  to: number;
}
const SHORTEST_COMMENT = 3; // shorter runs are read at a glance
const isComment = (line: string | undefined) => line !== undefined && /^\s*#/.test(line);
const isBlank = (line: string) => line.trim() === "";
const indentation = (line: string) => line.length - line.trimStart().length;

/** The index of the last line that folds below a line; null if none does. */
export function lastFolded(lines: readonly string[], index: number): number | null {
  const line = lines[index] ?? "";
  if (isBlank(line)) return null;
  if (isComment(line)) return isComment(lines[index - 1]) ? null : lastComment(lines, index);
  const own = indentation(line);
  const isKey = /:\s*(?:[|>][+-]?\s*)?(?:#.*)?$/.test(line);
  let last = index;
  for (let next = index + 1; next < lines.length; next += 1) {
    const text = lines[next] ?? "";
    if (isBlank(text)) continue;
    const isItem = isKey && indentation(text) === own && text.trimStart().startsWith("- ");
    if (indentation(text) <= own && !isItem) break;
    last = next;
  }
  return last > index ? last : null;
}

function lastComment(lines: readonly string[], index: number): number | null {
  let last = index;
  while (isComment(lines[last + 1])) last += 1;
  return last - index + 1 < SHORTEST_COMMENT ? null : last;
}

/** The range that folds at a line, from its end on; null if nothing does. */
export function foldAt(text: string, index: number): Range | null {
  return foldsOf(text, (_, line) => line === index)[0] ?? null;
}

/** The runs of comment lines, which are folded when a file is opened. */
export function comments(text: string): Range[] {
  return foldsOf(text, isComment);
}

/** The outermost folds of a text that begin at lines which are wanted. */
export function foldsOf(
  text: string,
  isWanted: (line: string, index: number) => boolean = () => true,
): Range[] {
  const lines = text.split("\n");
  const found: Range[] = [];
  let at = 0;
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? "";
    const last = isWanted(line, index) ? lastFolded(lines, index) : null;
    const end = at + line.length;
    at = end + 1;
    if (last === null) continue;
    const hidden = lines.slice(index + 1, last + 1).join("\n").length + 1;
    found.push({ from: end, to: end + hidden });
    at = end + hidden + 1;
    index = last;
  }
  return found;
}
