// Recovery of text kept in the browser: restored automatically, or offered to the user.
import { canonical, type ReportDocument } from "../text/document";
import type { Entry } from "./journal";

export type Recovery = "nothing" | "forget" | "restore" | "ask";

/**
 * Returns what to do with a kept text. It is restored if the report has not changed since the text
 * was typed and is editable; a report that has changed is never overwritten without asking.
 * `stored.text` is the canonical form of the saved text.
 */
export function recovery(
  entry: Entry<ReportDocument> | null,
  stored: { text: string; version: number; writable: boolean },
): Recovery {
  if (!entry) return "nothing";
  if (canonical(entry.content) === stored.text) return "forget";
  return stored.writable && entry.version === stored.version ? "restore" : "ask";
}
