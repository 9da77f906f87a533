// The columns of a table.
import type { Snippet } from "svelte";

export interface Column<Row> {
  id: string;
  title: string;
  /** A CSS length, or a share of what is left such as "1fr" or "minmax(12rem, 2fr)". */
  width: string;
  align?: "end" | undefined;
  /** The text of the cell; `cell` draws one that needs more. */
  text?: ((row: Row) => string) | undefined;
  cell?: Snippet<[Row]> | undefined;
  /** Numbers and ids are set in the typewriter face. */
  mono?: boolean | undefined;
  /** What a reader of the cell needs more, on hovering. */
  full?: ((row: Row) => string) | undefined;
  /** Where the cell goes on a phone; "hidden" if it is left out. */
  narrow?: "title" | "end" | "line" | "hidden" | undefined;
  /** Shown unless the person chose otherwise. */
  picked?: boolean | undefined;
}

/** The columns that a person sees: those chosen, in that order, else the picked ones. */
export function shownColumns<Row>(
  columns: readonly Column<Row>[],
  chosen: readonly string[] | undefined,
): Column<Row>[] {
  if (!chosen) return columns.filter((column) => column.picked !== false);
  const byId = new Map(columns.map((column) => [column.id, column]));
  const found = chosen.map((id) => byId.get(id)).filter((column) => column !== undefined);
  return found.length ? found : columns.filter((column) => column.picked !== false);
}
