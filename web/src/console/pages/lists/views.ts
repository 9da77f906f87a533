// Saved views of a list: filters, columns and order by name.
import { publicPart, sameFilter, type Filter, type FilterField } from "../../data/filter";
import type { SavedView } from "../../data/api-types";

/** A view that comes with the console. */
export interface BuiltInView {
  id: string;
  name: string;
  filters: Filter;
  /** Without them the columns stay. */
  columns?: readonly string[];
}
/** What the page takes over from a view. */
export interface LoadedView {
  id: string;
  filters: Filter;
  /** "-state": by state, descending; "" is newest first. */
  sort: string;
}
export interface ShownView {
  filters: Filter;
  sort: string;
  columns: readonly string[] | null;
}

export const TIME = "time";

/** The values of a saved view as filters; other versions may have stored single values. */
export function filtersOf(view: SavedView): Filter {
  return Object.fromEntries(
    Object.entries(view.body.filters).map(([name, value]) => [
      name,
      (Array.isArray(value) ? value : [value]).map(String),
    ]),
  );
}
export function shownOf(view: SavedView): ShownView {
  const { sort, columns } = view.body;
  return {
    filters: filtersOf(view),
    sort: sort === TIME ? "" : sort,
    columns: columns.length ? columns : null,
  };
}

/** True if the list shows something else than the view; private filters are no part of a view. */
export function isChanged(
  view: ShownView,
  filter: Filter,
  sort: string,
  columns: readonly string[],
  fields: readonly FilterField[],
): boolean {
  return (
    !sameFilter(view.filters, publicPart(filter, fields)) ||
    view.sort !== sort ||
    (view.columns !== null && view.columns.join() !== columns.join())
  );
}
