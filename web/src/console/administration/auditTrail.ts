// Repeated entries of the audit trail are shown as one line with a count.
import type { ConsoleAuditEvent } from "../types";

const COMPARED = ["email", "action", "subject", "site", "reason", "outcome"] as const;

/** Returns the newest entry of each run of equal entries with the length of the run. */
export function collapseRepeats(
  events: readonly ConsoleAuditEvent[],
): [ConsoleAuditEvent, number][] {
  const runs: [ConsoleAuditEvent, number][] = [];
  for (const each of events) {
    const last = runs.at(-1);
    if (last && COMPARED.every((name) => last[0][name] === each[name])) last[1] += 1;
    else runs.push([each, 1]);
  }
  return runs;
}
