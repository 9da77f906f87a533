// Repeated entries of the audit trail are shown as one line with a count.
import type { AuditRow } from "../../data/api-types";

/** The newest of equal entries that follow each other, and all of them. */
export interface AuditRun extends AuditRow {
  events: readonly AuditRow[];
}

const COMPARED = ["email", "action", "subject", "site", "reason", "outcome"] as const;

export function runsOf(events: readonly AuditRow[]): AuditRun[] {
  const runs: (AuditRow & { events: AuditRow[] })[] = [];
  for (const event of events) {
    const last = runs.at(-1);
    if (last && COMPARED.every((name) => last[name] === event[name])) last.events.push(event);
    else runs.push({ ...event, events: [event] });
  }
  return runs;
}
