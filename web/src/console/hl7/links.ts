// Which places of a message feed which values: the lines of a traced event.
import type { Node, Outcome, Place, Source, Target, TraceEvent } from "../data/api-types";
import { leavesOf, type Places } from "./places";

/** A place that a rule reads for a value. */
export interface Link {
  target: string;
  place: Place;
  /** False: the place has a value, but another source gave it. */
  isUsed: boolean;
}

const FED: readonly Outcome[] = ["used"];

/** The places that feed the values of an event, and those that were considered instead. */
export function linksOf(event: TraceEvent, places: Places): Link[] {
  const found = new Map<string, Link>();
  for (const target of event.targets)
    for (const source of target.sources)
      for (const read of source.places) {
        const place = places.nearest(read);
        if (place === null || source.raw === "") continue;
        const isUsed = FED.includes(source.outcome);
        const key = `${target.target} ${place}`;
        if (isUsed || !found.has(key)) found.set(key, { target: target.target, place, isUsed });
      }
  return [...found.values()];
}

export type Mark = "used" | "considered" | "unread";

/** The component that chooses a repetition, such as CX.5 of `PID-3[CX-5=MR].1`. */
function choosersOf(event: TraceEvent, places: Places): Place[] {
  const used = event.targets.flatMap((target) => usedSources(target));
  return used.flatMap((source) => {
    const component = /\[(?:[A-Z]+-)?(\d+)=/.exec(source.text)?.[1];
    if (component === undefined) return [];
    const found = source.places.map((place) => place.replace(/\..*$/, `.${component}`));
    return found.filter((place) => places.node(place) !== null);
  });
}

/** How each value of a message was used; what no rule reads is `unread`. MSH is read for routing. */
export function marksOf(
  tree: readonly Node[],
  event: TraceEvent,
  links: readonly Link[],
  places: Places,
): Map<Place, Mark> {
  const marks = new Map<Place, Mark>();
  for (const link of links) {
    if (link.isUsed) marks.set(link.place, "used");
    else if (!marks.has(link.place)) marks.set(link.place, "considered");
  }
  for (const place of choosersOf(event, places)) marks.set(place, "used");
  const leaves = tree.filter((node) => !node.place.startsWith("MSH")).flatMap(leavesOf);
  for (const leaf of leaves) {
    if (leaf.text === "" || marks.has(leaf.place)) continue;
    const around = places.around(leaf.place).slice(0, -1); // a whole segment marks none of its values
    const own = around.map((place) => marks.get(place)).find((mark) => mark !== undefined);
    marks.set(leaf.place, own ?? "unread");
  }
  return marks;
}

/** The groups of the values on the right, in this order. */
export const KINDS = [
  "tag",
  "report",
  "order",
  "meta",
  "visit",
  "app",
  "link",
  "row",
  "only",
] as const;

export interface TargetGroup {
  kind: string;
  targets: readonly Target[];
}

/** The targets by their kind; those with a value first. */
export function groupsOf(targets: readonly Target[]): TargetGroup[] {
  const kinds = new Map<string, Target[]>();
  for (const target of targets) {
    const kind = target.target.split(":")[0] ?? "";
    kinds.set(kind, [...(kinds.get(kind) ?? []), target]);
  }
  const order = (kind: string) => {
    const at = (KINDS as readonly string[]).indexOf(kind);
    return at < 0 ? KINDS.length : at;
  };
  return [...kinds]
    .sort(([one], [other]) => order(one) - order(other))
    .map(([kind, found]) => ({ kind, targets: found }));
}

export const nameOf = (target: string): string => target.slice(target.indexOf(":") + 1);

/** The sources that gave the value, for the short form behind it. */
export const usedSources = (target: Target): Source[] =>
  target.sources.filter(
    (source) => source.outcome === "used" || source.outcome === "listener default",
  );
