// The places of a message: which node a place names, what is inside what, and its range in the text.
import type { Node, Place } from "../data/api-types";
import type { TreeNode } from "../ui/tree/tree";

export interface Part extends TreeNode {
  node: Node;
  /** 1: a segment. */
  level: number;
  children: readonly Part[];
}

/** True if a node or something in it has a value. */
export const isFilled = (node: Node): boolean =>
  node.text !== "" || node.children.some((child) => isFilled(child));

/** The rows of the tree; without `withEmpty` only those that have a value. Segments always stay. */
export function partsOf(tree: readonly Node[], withEmpty: boolean, level = 1): Part[] {
  return tree
    .filter((node) => withEmpty || level === 1 || isFilled(node))
    .map((node) => ({
      id: node.place,
      name: node.name || node.place,
      node,
      level,
      children: partsOf(node.children, withEmpty, level + 1),
    }));
}

/** Which nodes there are, in their order, and which is inside which. */
export class Places {
  private readonly known = new Map<Place, { node: Node; parent: Place | null; at: number }>();

  constructor(tree: readonly Node[]) {
    const walk = (nodes: readonly Node[], parent: Place | null): void => {
      for (const node of nodes) {
        this.known.set(node.place, { node, parent, at: this.known.size });
        walk(node.children, node.place);
      }
    };
    walk(tree, null);
  }

  node(place: Place): Node | null {
    return this.known.get(place)?.node ?? null;
  }

  /** The position among all nodes. */
  at(place: Place): number {
    return this.known.get(place)?.at ?? -1;
  }

  /** The nodes around one, the nearest first. */
  around(place: Place): Place[] {
    const found: Place[] = [];
    for (let next = this.known.get(place)?.parent; next; next = this.known.get(next)?.parent)
      found.push(next);
    return found;
  }

  segmentOf(place: Place): Place {
    return this.around(place).at(-1) ?? place;
  }

  /** The node that a place names, or the smallest one around it; null: there is no such segment. */
  nearest(place: Place): Place | null {
    let name = place;
    while (name !== "" && !this.known.has(name)) name = name.replace(/(?:^|[.[-])[^.[-]*$/, "");
    return name === "" ? null : name;
  }

  /** True if one is the other or is inside it. */
  touch(one: Place, other: Place): boolean {
    return one === other || this.around(one).includes(other) || this.around(other).includes(one);
  }
}

export interface RawPart {
  text: string;
  /** Null: a separator. */
  place: Place | null;
}
export interface RawSegment {
  place: Place;
  parts: readonly RawPart[];
}

/** The text of each segment, cut where its values begin and end. */
export function rawSegments(raw: string, tree: readonly Node[]): RawSegment[] {
  return tree.map((segment) => ({ place: segment.place, parts: rawParts(raw, segment) }));
}

function rawParts(raw: string, segment: Node): RawPart[] {
  const parts: RawPart[] = [];
  let at = segment.start;
  for (const leaf of leavesOf(segment)) {
    if (leaf.start > at) parts.push({ text: raw.slice(at, leaf.start), place: null });
    if (leaf.end > leaf.start)
      parts.push({ text: raw.slice(leaf.start, leaf.end), place: leaf.place });
    at = Math.max(at, leaf.end);
  }
  if (segment.end > at) parts.push({ text: raw.slice(at, segment.end), place: null });
  return parts;
}

/** The nodes without parts, in the order of the text. */
export function leavesOf(node: Node): Node[] {
  return node.children.length ? node.children.flatMap((child) => leavesOf(child)) : [node];
}

/** "19580714…" as "1958-07-14"; what is no day of HL7 stays. */
export const dayOf = (date: string): string =>
  date.replace(/^(\d{4})(\d\d)(\d\d)(\d{2,6}(\.\d+)?([+-]\d{4})?)?$/, "$1-$2-$3");
