// Differences between two texts: by line, then by word (Myers' greedy algorithm).

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
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) {
    start += 1;
  }
  let end = 0;
  const rest = Math.min(before.length, after.length) - start;
  while (end < rest && before[before.length - 1 - end] === after[after.length - 1 - end]) {
    end += 1;
  }
  const same = (text: string): Piece => ({ kind: "same", text });
  return [
    ...before.slice(0, start).map(same),
    ...shortest(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...before.slice(before.length - end).map(same),
  ];
}

function shortest(before: readonly string[], after: readonly string[]): Piece[] {
  const trail = explore(before, after);
  return trail ? walkBack(trail, before, after) : wholly(before, after);
}

function wholly(before: readonly string[], after: readonly string[]): Piece[] {
  return [
    ...before.map((text): Piece => ({ kind: "removed", text })),
    ...after.map((text): Piece => ({ kind: "added", text })),
  ];
}

type Frontier = Map<number, number>;

/** Returns the furthest position on each diagonal after 0, 1, 2 … edits. */
function explore(before: readonly string[], after: readonly string[]): Frontier[] | null {
  const reached: Frontier = new Map([[1, 0]]);
  const trail: Frontier[] = [];
  const most = Math.min(before.length + after.length, MOST_EDITS);
  for (let edits = 0; edits <= most; edits += 1) {
    trail.push(new Map(reached));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = cameDown(reached, diagonal, edits)
        ? (reached.get(diagonal + 1) ?? 0)
        : (reached.get(diagonal - 1) ?? 0) + 1;
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal])
        x += 1;
      reached.set(diagonal, x);
      if (x >= before.length && x - diagonal >= after.length) return trail;
    }
  }
  return null;
}

function cameDown(reached: Frontier, diagonal: number, edits: number): boolean {
  if (diagonal === -edits) return true;
  if (diagonal === edits) return false;
  return (reached.get(diagonal - 1) ?? -1) < (reached.get(diagonal + 1) ?? -1);
}

function walkBack(
  trail: readonly Frontier[],
  before: readonly string[],
  after: readonly string[],
): Piece[] {
  const pieces: Piece[] = [];
  let [x, y] = [before.length, after.length];
  for (let edits = trail.length - 1; edits >= 0; edits -= 1) {
    const reached = trail[edits] as Frontier;
    const diagonal = x - y;
    const from = cameDown(reached, diagonal, edits) ? diagonal + 1 : diagonal - 1;
    const fromX = edits === 0 ? 0 : (reached.get(from) ?? 0);
    const fromY = edits === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      pieces.push({ kind: "same", text: before[x - 1] as string });
      [x, y] = [x - 1, y - 1];
    }
    if (edits === 0) break;
    if (x === fromX) pieces.push({ kind: "added", text: after[y - 1] as string });
    else pieces.push({ kind: "removed", text: before[x - 1] as string });
    [x, y] = [fromX, fromY];
  }
  return pieces.reverse();
}
