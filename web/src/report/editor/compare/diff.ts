// What differs between two texts, word by word (Myers' greedy algorithm), line by line first.

export type Kind = "same" | "added" | "removed";

export interface Piece {
  kind: Kind;
  text: string;
}

/** Words, numbers with their decimals, single signs and spaces; each CJK sign is a word. */
const WORDS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]|\d+(?:[.,]\d+)*|[\p{L}\p{M}\p{N}_]+|\s+|[^\s\p{L}\p{M}\p{N}_]/gu;

const MOST_EDITS = 2000;

/** Returns the pieces that lead from one text to another; beyond reason all of it is new. */
export function diffWords(before: string, after: string): Piece[] {
  return joined(diff(before.match(WORDS) ?? [], after.match(WORDS) ?? []));
}

export interface LinePair {
  before: Piece[] | null;
  after: Piece[] | null;
}

/** Returns the lines of two texts side by side; null stands for a line the other side lacks. */
export function diffLines(before: readonly string[], after: readonly string[]): LinePair[] {
  const pairs: LinePair[] = [];
  let removed: string[] = [];
  let added: string[] = [];
  const settle = () => {
    const rows = Math.max(removed.length, added.length);
    for (let row = 0; row < rows; row += 1) pairs.push(pair(removed[row], added[row]));
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

/** Returns how far each diagonal reached after 0, 1, 2 … edits. */
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
