// Differences of two texts: lines first, then the words of lines that replace each other.
import { diffArrays, diffWordsWithSpace } from "diff";

export interface Word {
  text: string;
  changed: boolean;
}
export interface DiffLine {
  kind: "same" | "added" | "removed";
  /** The line numbers from 1 on; null on the other side. */
  before: number | null;
  after: number | null;
  words: readonly Word[];
}
export interface Fold {
  kind: "fold";
  id: number;
  lines: readonly DiffLine[];
}

const linesOf = (text: string, isHl7: boolean) =>
  text === ""
    ? []
    : text
        .replace(isHl7 ? /\r\n?/g : /\r\n/g, "\n")
        .replace(/\n$/, "")
        .split("\n");

export function difference(
  before: string,
  after: string,
  kind: "text" | "hl7" = "text",
): DiffLine[] {
  const isHl7 = kind === "hl7";
  const lines: DiffLine[] = [];
  let [old, now] = [1, 1];
  const plain = (text: string): Word[] => [{ text, changed: false }];
  const changes = diffArrays(linesOf(before, isHl7), linesOf(after, isHl7));
  for (let at = 0; at < changes.length; at += 1) {
    const change = changes[at];
    const next = changes[at + 1];
    if (!change) continue;
    if (!change.added && !change.removed) {
      for (const text of change.value)
        lines.push({ kind: "same", before: old++, after: now++, words: plain(text) });
      continue;
    }
    const isPair = change.removed && next?.added === true;
    const [removed, added] = isPair
      ? [change.value, next.value]
      : change.removed
        ? [change.value, []]
        : [[], change.value];
    const pairs = removed.map((text, index) => wordsOf(text, added[index], isHl7));
    removed.forEach((text, index) =>
      lines.push({
        kind: "removed",
        before: old++,
        after: null,
        words: pairs[index]?.[0] ?? plain(text),
      }),
    );
    added.forEach((text, index) =>
      lines.push({
        kind: "added",
        before: null,
        after: now++,
        words: pairs[index]?.[1] ?? plain(text),
      }),
    );
    if (isPair) at += 1;
  }
  return lines;
}

/** The words of two lines that replace each other; HL7 by components. */
function wordsOf(
  before: string,
  after: string | undefined,
  isHl7: boolean,
): [Word[], Word[]] | null {
  if (after === undefined) return null;
  const changes = isHl7
    ? diffArrays(before.split(/([|^~&])/), after.split(/([|^~&])/)).map((one) => ({
        added: one.added,
        removed: one.removed,
        value: one.value.join(""),
      }))
    : diffWordsWithSpace(before, after);
  const side = (other: "added" | "removed", own: "added" | "removed") =>
    changes
      .filter((change) => !change[other])
      .map((change) => ({ text: change.value, changed: change[own] === true }));
  return [side("added", "removed"), side("removed", "added")];
}

/** Folds the unchanged runs that are longer than twice the context. */
export function folded(lines: readonly DiffLine[], context: number): (DiffLine | Fold)[] {
  const result: (DiffLine | Fold)[] = [];
  let run: DiffLine[] = [];
  const flush = (isLast: boolean): void => {
    const isFirst = result.length === 0;
    const [head, tail] = [isFirst ? 0 : context, isLast ? 0 : context];
    if (run.length > head + tail + 1) {
      const middle = run.slice(head, run.length - tail);
      result.push(
        ...run.slice(0, head),
        { kind: "fold", id: middle[0]?.before ?? 0, lines: middle },
        ...run.slice(run.length - tail),
      );
    } else result.push(...run);
    run = [];
  };
  for (const line of lines) {
    if (line.kind === "same") run.push(line);
    else {
      flush(false);
      result.push(line);
    }
  }
  flush(true);
  return result;
}

/** Lines that replace each other, or are only on one side. */
export interface Change {
  kind: "change";
  id: number;
  removed: readonly DiffLine[];
  added: readonly DiffLine[];
}

/** Joins the changed lines that follow each other. */
export function withChanges(items: readonly (DiffLine | Fold)[]): (DiffLine | Fold | Change)[] {
  const result: (DiffLine | Fold | Change)[] = [];
  let run: DiffLine[] = [];
  const flush = (): void => {
    if (run.length) result.push(changeOf(run, result.length));
    run = [];
  };
  for (const item of items) {
    if (item.kind === "added" || item.kind === "removed") run.push(item);
    else {
      flush();
      result.push(item);
    }
  }
  flush();
  return result;
}

function changeOf(run: readonly DiffLine[], id: number): Change {
  return {
    kind: "change",
    id,
    removed: run.filter((line) => line.kind === "removed"),
    added: run.filter((line) => line.kind === "added"),
  };
}

/** The later text with the earlier lines in the place of one change. */
export function takenOver(lines: readonly DiffLine[], change: Change): string {
  const [earlier, later] = [new Set(change.removed), new Set(change.added)];
  return lines
    .filter((line) => (line.kind === "removed" ? earlier.has(line) : !later.has(line)))
    .map((line) => `${line.words.map((word) => word.text).join("")}\n`)
    .join("");
}
