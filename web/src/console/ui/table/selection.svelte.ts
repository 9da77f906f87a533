// Which rows are chosen: some by id, or all that match the filter except some.
import type { ServerFilters } from "../../data/filter";

export type RowId = number | string;

/** What an action on many rows sends; the server fixes the newest row of `filters`. */
export type SelectionRequest =
  { list: string; ids: RowId[] } | { list: string; filters: ServerFilters; except_ids: RowId[] };

export class Selection {
  #ids = $state.raw<ReadonlySet<RowId>>(new Set());
  #all = $state.raw<ServerFilters | null>(null);

  /** All that match, except `ids`. */
  get all(): boolean {
    return this.#all !== null;
  }
  get isEmpty(): boolean {
    return this.#all === null && this.#ids.size === 0;
  }
  /** The number of rows; `matching` is the number of rows that match the filter. */
  count(matching: number): number {
    return this.#all ? Math.max(0, matching - this.#ids.size) : this.#ids.size;
  }
  has(id: RowId): boolean {
    return this.#ids.has(id) !== this.all;
  }
  set(id: RowId, chosen: boolean): void {
    const next = new Set(this.#ids);
    if (chosen !== this.all) next.add(id);
    else next.delete(id);
    this.#ids = next;
  }
  toggle(id: RowId): void {
    this.set(id, !this.has(id));
  }
  /** Chooses the rows between two, which are part of it. */
  range(ids: readonly RowId[], from: RowId, to: RowId): void {
    const [one, other] = [ids.indexOf(from), ids.indexOf(to)];
    if (one < 0 || other < 0) return;
    for (const id of ids.slice(Math.min(one, other), Math.max(one, other) + 1)) this.set(id, true);
  }
  setLoaded(ids: readonly RowId[]): void {
    this.#all = null;
    this.#ids = new Set(ids);
  }
  /** Chooses all rows that match the filters, as the server was asked. */
  setAll(filters: ServerFilters): void {
    this.#all = filters;
    this.#ids = new Set();
  }
  clear(): void {
    this.#all = null;
    this.#ids = new Set();
  }
  /** The chosen ones of these rows. */
  of<Row>(rows: readonly Row[], idOf: (row: Row) => RowId): Row[] {
    return rows.filter((row) => this.has(idOf(row)));
  }
  request(list: string): SelectionRequest {
    const ids = [...this.#ids];
    return this.#all ? { list, filters: this.#all, except_ids: ids } : { list, ids };
  }
}
