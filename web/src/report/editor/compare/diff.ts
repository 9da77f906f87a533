// Differences between two texts: by line, then by word.
import { diffArrays } from "diff";

export type Kind = "same" | "added" | "removed";

export interface Piece {
  kind: Kind;
  text: string;
}

/** Words, numbers with their decimals, single symbols and spaces; each CJK character is a word. */
const WORDS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]|\d+(?:[.,]\d+)*|[\p{L}\p{M}\p{N}_]+|\s+|[^\s\p{L}\p{M}\p{N}_]/gu;

const MOST_EDITS = 2000;

/** Returns the differences of two texts; above the limit of edits, the whole text is new. */
export function diffWords(before: string, after: string): Piece[] {
  return diff(before.match(WORDS) ?? [], after.match(WORDS) ?? []).map(({ kind, values }) => ({
    kind,
    text: values.join(""),
  }));
}

export interface LinePair {
  before: Piece[] | null;
  after: Piece[] | null;
  heading?: true;
}

/** Returns the lines of two texts side by side; null marks a missing line. */
export function diffLines(before: readonly string[], after: readonly string[]): LinePair[] {
  const pairs: LinePair[] = [];
  let removed: string[] = [];
  let added: string[] = [];
  const settle = () => {
    pairs.push(...aligned(removed, added));
    [removed, added] = [[], []];
  };
  for (const { kind, values } of diff(before, after)) {
    if (kind === "removed") removed.push(...values);
    else if (kind === "added") added.push(...values);
    else {
      settle();
      pairs.push(...values.map((text) => ({ before: [{ kind, text }], after: [{ kind, text }] })));
    }
  }
  settle();
  return pairs;
}

/** Lines with at least this share of common words count as one changed line. */
const ALIKE = 0.4;
const MOST_UNLIKE_LINES = 200;

/** Pairs similar removed and added lines, in their order. */
function aligned(removed: readonly string[], added: readonly string[]): LinePair[] {
  const words = (line: string) => new Set(line.toLocaleLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  const changes = diff(removed.map(words), added.map(words), MOST_UNLIKE_LINES, areAlike);
  let [x, y] = [0, 0];
  return changes.flatMap(({ kind, values }) =>
    values.map(() =>
      pair(
        kind === "added" ? undefined : removed[x++],
        kind === "removed" ? undefined : added[y++],
      ),
    ),
  );
}

function areAlike(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  let common = 0;
  for (const word of one) if (other.has(word)) common += 1;
  return (2 * common) / (one.size + other.size) >= ALIKE;
}

function pair(before: string | undefined, after: string | undefined): LinePair {
  if (before === undefined) return { before: null, after: [{ kind: "added", text: after ?? "" }] };
  if (after === undefined) return { before: [{ kind: "removed", text: before }], after: null };
  const words = diffWords(before, after);
  return {
    before: words.filter((piece) => piece.kind !== "added"),
    after: words.filter((piece) => piece.kind !== "removed"),
  };
}

/** Returns runs of values; above the limit of edits, all are new. */
function diff<T>(
  before: readonly T[],
  after: readonly T[],
  maxEditLength = MOST_EDITS,
  comparator: (one: T, other: T) => boolean = (one, other) => one === other,
): { kind: Kind; values: T[] }[] {
  const changes = diffArrays([...before], [...after], { maxEditLength, comparator }) ?? [
    { value: [...before], added: false, removed: true },
    { value: [...after], added: true, removed: false },
  ];
  return changes.map(({ value, added, removed }) => ({
    kind: added ? "added" : removed ? "removed" : "same",
    values: value,
  }));
}
