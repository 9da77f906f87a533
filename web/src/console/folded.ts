// Entries of the record that follow each other and say the same: one line, and how many.
import type { Deed } from "./types";

const SAME = ["email", "action", "subject", "site", "reason", "outcome"] as const;

/** Gives the newest of each run with its count. */
export function folded(deeds: readonly Deed[]): [Deed, number][] {
  const runs: [Deed, number][] = [];
  for (const each of deeds) {
    const last = runs.at(-1);
    if (last && SAME.every((name) => last[0][name] === each[name])) last[1] += 1;
    else runs.push([each, 1]);
  }
  return runs;
}
