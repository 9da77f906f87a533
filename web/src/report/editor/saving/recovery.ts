// What becomes of text that a computer kept: it goes back where it was, or a person decides.
import { canonical, type ReportDocument } from "../text/document";
import type { Entry } from "./journal";

export type Recovery = "nothing" | "forget" | "restore" | "ask";

/**
 * Returns what to do with a kept text. It is restored when the report still is as it was when it
 * was typed and may be written; when the report has moved on, its text is not overwritten unasked.
 */
export function recovery(
  entry: Entry<ReportDocument> | null,
  stored: { document: ReportDocument; version: number; writable: boolean },
): Recovery {
  if (!entry) return "nothing";
  if (canonical(entry.content) === canonical(stored.document)) return "forget";
  return stored.writable && entry.version === stored.version ? "restore" : "ask";
}
