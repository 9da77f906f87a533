// The columns of a table.
import type { Snippet } from "svelte";
import type { Filter } from "../../data/filter";

export interface Column<Row> {
  id: string;
  title: string;
  /** A CSS length, or a share of what is left such as "1fr" or "minmax(12rem, 2fr)". */
  width: string;
  align?: "end" | undefined;
  /** The text of the cell; `cell` draws one that needs more, and gets the value of a content column. */
  text?: ((row: Row) => string) | undefined;
  cell?: Snippet<[Row, string | null | undefined]> | undefined;
  /** The values come with a call of their own, by the id of the column. */
  content?: boolean | undefined;
  /** What the list is sorted by; without it by the id, if the list can. */
  sort?: string | undefined;
  /** Numbers and ids are set in the typewriter face. */
  mono?: boolean | undefined;
  /** What a reader of the cell needs more, on hovering. */
  full?: ((row: Row) => string) | undefined;
  /** Where the cell goes on a phone; "hidden" if it is left out. */
  narrow?: "title" | "end" | "line" | "hidden" | undefined;
  /** Shown unless the person chose otherwise. */
  picked?: boolean | undefined;
  /** The filter that shows only rows with the value of the cell; null: none. */
  filter?: ((row: Row, value: string) => Filter | null) | undefined;
}

/** The filter for one value of a field; null: the cell is empty. */
export const filterBy = (field: string, value: string): Filter | null =>
  value ? { [field]: [value] } : null;

/** Columns that are made from their id, such as `tag:Modality`. */
export interface MoreColumns<Row> {
  /** Their ids, which are offered. */
  offered: readonly string[];
  /** The column of an id, also of one that is not offered, such as `path:PV1-3.1`; null: there is none. */
  of: (id: string) => Column<Row> | null;
  /** The id that a typed text means, such as "PV1-3.1"; null: none. */
  typed: (text: string) => string | null;
}

/** The values of content columns. */
export interface ContentValues {
  /** Undefined: not read yet. Null: not read, because it would take too long. */
  value(row: number | string, column: string): string | null | undefined;
}

/** The columns that a person sees: those chosen, in that order, else the picked ones. */
export function shownColumns<Row>(
  columns: readonly Column<Row>[],
  chosen: readonly string[] | undefined,
  more?: MoreColumns<Row>,
): Column<Row>[] {
  const picked = columns.filter((column) => column.picked !== false);
  if (!chosen) return picked;
  const byId = new Map(columns.map((column) => [column.id, column]));
  const found = chosen
    .map((id) => byId.get(id) ?? more?.of(id) ?? null)
    .filter((column) => column !== null);
  return found.length ? found : picked;
}

/** The ids with one moved to the place of another. */
export function movedTo(ids: readonly string[], id: string, to: number): string[] {
  const next = ids.filter((one) => one !== id);
  next.splice(Math.max(0, Math.min(next.length, to)), 0, id);
  return next;
}
