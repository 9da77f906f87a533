// Codes that messages had before their code table got an entry, and the search for these messages.
import type { SelectionRequest } from "../../ui/table/selection.svelte";
import type { UnmappedCode } from "../types";

/** Codes of one place that a draft gives an entry to; `since` is in ms. */
export interface MappedCodes {
  place: string;
  codes: { code: string; value: string }[];
  count: number;
  since: number;
}

/** Codes are counted in memory, and stored some seconds later. */
const STORED_LATER_MS = 3_600_000;

/** The codes of a definition that have an entry in the draft, by the place where they were read. */
export function mappedCodes(rows: readonly UnmappedCode[], name: string): MappedCodes[] {
  const found = new Map<string, MappedCodes>();
  for (const { mapping, place, code, value, back, count, first_at } of rows) {
    if (mapping !== name || back || !code || !value || place.startsWith("$")) continue;
    const known = found.get(place);
    found.set(place, {
      place,
      codes: [...(known?.codes ?? []), { code, value }],
      count: (known?.count ?? 0) + count,
      since: Math.min(known?.since ?? first_at, first_at),
    });
  }
  return [...found.values()];
}

/** The search for the messages that a definition has read with these codes. */
export function searchOf(
  name: string,
  { place, codes, since }: MappedCodes,
): { selection: SelectionRequest; options: Record<string, unknown> } {
  const filters = { definition: [name], since: since - STORED_LATER_MS };
  return {
    selection: { list: "messages", filters, except_ids: [] },
    options: { where: { [place]: codes.map(({ code }) => code) } },
  };
}
