// The values of content columns, such as accession and patient: read by a call of their own for the rows
// in sight, which the audit trail has, and kept while the list is shown.
import { api } from "./api";
import type { Columns } from "./api-types";
import type { ContentValues } from "../ui/table/columns";

/** Limits of one call. */
const [ROWS, COLUMNS] = [100, 12];
/** Calls for messages that were not read in time; then they are left out. */
const CALLS = 4;
/** A person who scrolls past rows does not read them. */
const REST_MS = 120;

type Values = Readonly<Record<string, string | null>>;

export class Contents implements ContentValues {
  #values = $state.raw<ReadonlyMap<number, Values>>(new Map());
  #asked = new Map<number, Set<string>>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #run = new AbortController();
  readonly #path: string;

  constructor(list: string) {
    this.#path = `/console/api/lists/${list}/columns`;
  }
  value(row: number | string, column: string): string | null | undefined {
    return this.#values.get(Number(row))?.[column];
  }
  /** Asks for the values of rows once the list rests. */
  want(ids: readonly number[], columns: readonly string[]): void {
    clearTimeout(this.#timer);
    if (ids.length && columns.length)
      this.#timer = setTimeout(() => this.#load(ids, columns.slice(0, COLUMNS)), REST_MS);
  }
  /** Forgets the values of rows that were mapped again; all without ids. */
  forget(ids?: readonly number[]): void {
    if (!ids) {
      this.stop();
      [this.#values, this.#asked, this.#run] = [new Map(), new Map(), new AbortController()];
      return;
    }
    const kept = new Map(this.#values);
    for (const id of ids) {
      kept.delete(id);
      this.#asked.delete(id);
    }
    this.#values = kept;
  }
  stop(): void {
    clearTimeout(this.#timer);
    this.#run.abort();
  }

  #load(ids: readonly number[], columns: readonly string[]): void {
    const missing = ids.filter((id) => columns.some((column) => !this.#asked.get(id)?.has(column)));
    for (const id of missing)
      this.#asked.set(id, new Set([...(this.#asked.get(id) ?? []), ...columns]));
    for (let at = 0; at < missing.length; at += ROWS)
      void this.#read(missing.slice(at, at + ROWS), columns);
  }
  async #read(ids: readonly number[], columns: readonly string[]): Promise<void> {
    const { signal } = this.#run;
    let left = ids;
    try {
      for (let call = 0; call < CALLS && left.length > 0; call += 1) {
        const found = await api.post<Columns>(this.#path, { ids: left, columns }, { signal });
        const unread = new Set(found.left);
        this.#take(
          left.filter((id) => !unread.has(id)),
          (id) => found.values[id] ?? {},
          columns,
          "",
        );
        left = found.left;
      }
      this.#take(left, () => ({}), columns, null);
    } catch {
      for (const id of ids) this.#asked.delete(id); // the next rest asks again
    }
  }
  #take(
    ids: readonly number[],
    valuesOf: (id: number) => Values,
    columns: readonly string[],
    missing: string | null,
  ): void {
    if (ids.length === 0) return;
    const next = new Map(this.#values);
    for (const id of ids) {
      const values = valuesOf(id);
      const own = columns.map((column) => [column, values[column] ?? missing] as const);
      next.set(id, { ...next.get(id), ...Object.fromEntries(own) });
    }
    this.#values = next;
  }
}
