// Formats the tags of an order: HL7 and DICOM values in readable form.
import type { ReportStatus, Row } from "./rows";

const SIGNED: readonly ReportStatus[] = ["Final", "Addendum"];
const ROUTINE = ["", "R"];
/** HL7 table 0485. These words are the same in every language; other codes stay as they are. */
export const URGENT_WORDS: Readonly<Record<string, string>> = { S: "STAT", A: "ASAP" };

/** The priority of an unread report; empty for routine. */
export function priorityOf({ status, priority }: Pick<Row, "status" | "priority">): string {
  const code = (priority ?? "").trim().toUpperCase();
  if (SIGNED.includes(status) || ROUTINE.includes(code)) return "";
  return URGENT_WORDS[code] ?? code;
}

/** Since when a report waits to be signed (milliseconds); null once it is signed. */
export function waitsSince(row: Pick<Row, "status" | "orderedAt" | "createdAt">): number | null {
  if (SIGNED.includes(row.status)) return null;
  const ordered = Date.parse(row.orderedAt ?? "");
  return Number.isNaN(ordered) ? row.createdAt : ordered;
}
