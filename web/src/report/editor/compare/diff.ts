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
  return joined(diff(before.match(WORDS) ?? [], after.match(WORDS) ?? []));
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
    for (const [one, other] of aligned(removed, added)) pairs.push(pair(one, other));
    [removed, added] = [[], []];
  };
  for (const each of diff(before, after)) {
    if (each.kind === "removed") removed.push(each.text);
    else if (each.kind === "added") added.push(each.text);
    else {
      settle();
      const same: Piece[] = [{ kind: "same", text: each.text }];
      pairs.push({ before: same, after: same });
    }
  }
  settle();
  return pairs;
}

/** Lines with at least this share of common words count as one changed line. */
const ALIKE = 0.4;
const MOST_COMPARED = 10_000;

type Row = [string | undefined, string | undefined];

/** Pairs similar removed and added lines, in their order. */
function aligned(removed: readonly string[], added: readonly string[]): Row[] {
  if (removed.length * added.length > MOST_COMPARED) {
    return [
      ...removed.map((each): Row => [each, undefined]),
      ...added.map((each): Row => [undefined, each]),
    ];
  }
  const best = scores(removed, added);
  const rows: Row[] = [];
  let [x, y] = [0, 0];
  while (x < removed.length || y < added.length) {
    const here = at(best, x, y);
    if (x < removed.length && here === at(best, x + 1, y)) rows.push([removed[x++], undefined]);
    else if (y < added.length && here === at(best, x, y + 1)) rows.push([undefined, added[y++]]);
    else rows.push([removed[x++], added[y++]]);
  }
  return rows;
}

const at = (best: readonly number[][], x: number, y: number): number => best[x]?.[y] ?? 0;

/** Returns the best total similarity of the remaining lines, for each pair of lines. */
function scores(removed: readonly string[], added: readonly string[]): number[][] {
  const words = (line: string) => new Set(line.toLocaleLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  const [ones, others] = [removed.map(words), added.map(words)];
  const best = removed.map(() => added.map(() => 0));
  for (let x = removed.length - 1; x >= 0; x -= 1) {
    for (let y = added.length - 1; y >= 0; y -= 1) {
      const common = likeness(ones[x] as Set<string>, others[y] as Set<string>);
      const both = common < ALIKE ? 0 : common + at(best, x + 1, y + 1);
      (best[x] as number[])[y] = Math.max(both, at(best, x + 1, y), at(best, x, y + 1));
    }
  }
  return best;
}

function likeness(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  let common = 0;
  for (const word of one) if (other.has(word)) common += 1;
  return one.size + other.size ? (2 * common) / (one.size + other.size) : 0;
}

function pair(before: string | undefined, after: string | undefined): LinePair {
  if (before === undefined) return { before: null, after: [{ kind: "added", text: after ?? "" }] };
  if (after === undefined) return { before: [{ kind: "removed", text: before }], after: null };
  const words = diffWords(before, after);
  return {
    before: words.filter((each) => each.kind !== "added"),
    after: words.filter((each) => each.kind !== "removed"),
  };
}

function joined(pieces: readonly Piece[]): Piece[] {
  const result: Piece[] = [];
  for (const piece of pieces) {
    const last = result.at(-1);
    if (last?.kind === piece.kind) last.text += piece.text;
    else result.push({ ...piece });
  }
  return result;
}

function diff(before: readonly string[], after: readonly string[]): Piece[] {
  const changes = diffArrays([...before], [...after], { maxEditLength: MOST_EDITS });
  const found = changes ?? [
    { value: before, added: false, removed: true },
    { value: after, added: true, removed: false },
  ];
  return found.flatMap(({ value, added, removed }) =>
    value.map((text): Piece => ({ kind: added ? "added" : removed ? "removed" : "same", text })),
  );
}
