// A list of the server, loaded page by page with keyset: a late answer never replaces a newer question.
import { api, poll, problemOf, type Problem } from "./api";
import type { Count, ListPage } from "./api-types";
import { EMPTY_FILTER, type Filter, type ServerFilters } from "./filter";
import { Selection, type RowId } from "../ui/table/selection.svelte";

export interface Sort {
  column: string;
  descending: boolean;
}
export type ListState = "first" | "idle" | "more" | "failed";

/** What a table shows: a list of the server, or rows that are all here. */
export interface ListSource<Row> {
  readonly rows: readonly Row[];
  readonly state: ListState;
  readonly problem: Problem | null;
  /** No further rows. */
  readonly end: boolean;
  /** The time down to which rows were examined, if the search stopped early. */
  readonly searchedTo: number | null;
  readonly filter: Filter;
  /** The filter as the server was asked. */
  readonly asked: ServerFilters;
  readonly sort: Sort | null;
  /** By what the rows can be sorted now. */
  readonly sortable: readonly string[];
  readonly known: Count | null;
  /** Rows that arrived and are not shown yet. */
  readonly freshCount: number;
  active: RowId | null;
  /** How far the table is scrolled, in pixels: the place to come back to. */
  place: number;
  readonly selection: Selection;
  more(): void;
  refresh(): void;
  showFresh(): void;
  sortBy(sort: Sort): void;
}

const TIME = "time";
const PAGE = 100;
/** Empty pages with a continuation that are followed without asking. */
const EMPTY_PAGES = 5;
export const MOST_ROWS = 20_000;

type Read<Row> = (
  question: Question,
  signal: AbortSignal,
  unattended: boolean,
) => Promise<ListPage<Row>>;
interface Options<Row> {
  /** Reads a page; the default posts the question to the path. */
  read?: Read<Row>;
  /** The filter as the server takes it. */
  convert?: (filter: Filter) => ServerFilters;
  /** The columns by which few rows can be sorted; the time always. */
  sorts?: readonly string[];
  /** False: the server does not count these rows. */
  counts?: boolean;
}
export interface Question {
  filters: ServerFilters;
  sort: string;
  descending: boolean;
  before: number | null;
  after: number | null;
  limit: number;
}

export class List<Row extends { id: number }> implements ListSource<Row> {
  rows = $state.raw<readonly Row[]>([]);
  state = $state<ListState>("first");
  problem = $state.raw<Problem | null>(null);
  end = $state(false);
  searchedTo = $state<number | null>(null);
  filter = $state.raw<Filter>(EMPTY_FILTER);
  asked = $state.raw<ServerFilters>({});
  sort = $state.raw<Sort | null>(null);
  sortable = $state.raw<readonly string[]>([TIME]);
  /** After an upgrade: from when on names and missing tags are found. */
  indexedFrom = $state<number | null>(null);
  known = $state.raw<Count | null>(null);
  active = $state<RowId | null>(null);
  place = 0;
  readonly selection = new Selection();
  #fresh = $state.raw<readonly Row[]>([]);
  #next: number | null = null;
  #run = new AbortController();
  #looking = false;
  readonly #path: string;
  #options: Options<Row>;

  constructor(path: string, options: Options<Row> = {}) {
    this.#path = path;
    this.#options = options;
  }
  /** Takes the options of the page that shows the list now. */
  use(options: Options<Row>): void {
    this.#options = options;
  }

  get freshCount(): number {
    return this.#fresh.length;
  }

  /** Asks anew; the rows shown stay until the first answer. */
  start(filter: Filter, sort: Sort | null = null): void {
    this.#run.abort();
    const run = (this.#run = new AbortController());
    [this.filter, this.sort, this.state, this.known] = [filter, sort, "first", null];
    this.asked = this.#options.convert?.(filter) ?? filter;
    [this.#next, this.end, this.searchedTo, this.#fresh] = [null, false, null, []];
    [this.active, this.place] = [null, 0];
    this.selection.clear();
    void this.#load(run, true);
    void this.#loadCount(run);
  }
  refresh(): void {
    this.start(this.filter, this.sort);
  }
  sortBy(sort: Sort): void {
    this.start(this.filter, sort);
  }
  more(): void {
    if (this.state !== "idle" || this.end || this.rows.length >= MOST_ROWS) return;
    this.state = "more";
    void this.#load(this.#run, false);
  }
  /** Asks for rows newer than the first; they wait until `showFresh`, or are shown if `now`. */
  async look(now: boolean): Promise<void> {
    const [run, newest] = [this.#run, this.#fresh[0] ?? this.rows[0]];
    if (this.#looking || this.state !== "idle" || !this.#isNewestFirst) return;
    if (!newest) {
      if (this.end) this.refresh();
      return;
    }
    this.#looking = true;
    try {
      const page = await this.#read(
        { ...this.#question(null), after: newest.id },
        run.signal,
        true,
      );
      if (run !== this.#run) return;
      const seen = new Set([...this.#fresh, ...this.rows].map((row) => row.id));
      const added = page.rows.filter((row) => !seen.has(row.id));
      if (added.length === 0) return;
      this.#fresh = [...added.sort((a, b) => b.id - a.id), ...this.#fresh];
      if (now) this.showFresh();
      void this.#loadCount(run, true);
    } catch {
      return; // the next hint asks again
    } finally {
      this.#looking = false;
    }
  }
  showFresh(): void {
    this.rows = [...this.#fresh, ...this.rows];
    this.#fresh = [];
  }
  /** Reads rows again, in their places; the answer has no further rows. */
  async reread(ids: readonly number[]): Promise<void> {
    const run = this.#run;
    try {
      const path = `${this.#path}/rows`;
      const { rows } = await poll<{ rows: Row[] }>(path, run.signal, { ids });
      if (run === this.#run) this.replace(rows);
    } catch {
      return; // the next one may succeed
    }
  }
  /** Puts changed rows in the place of the old ones. */
  replace(changed: readonly Row[]): void {
    const byId = new Map(changed.map((row) => [row.id, row]));
    if (byId.size) this.rows = this.rows.map((row) => byId.get(row.id) ?? row);
  }
  /** Reads one row by its id; undefined: there is none, or it belongs to another site. */
  async find(id: number): Promise<Row | undefined> {
    if (this.#options.read) return undefined;
    const signal = this.#run.signal;
    const body = { ids: [id] };
    return api
      .post<{ rows: Row[] }>(`${this.#path}/rows`, body, { signal })
      .then(({ rows }) => rows[0])
      .catch(() => undefined);
  }
  /** The loaded rows beside one, for "previous" and "next". */
  around(id: number): { previous: number | null; next: number | null } {
    const at = this.rows.findIndex((row) => row.id === id);
    return {
      previous: at > 0 ? (this.rows[at - 1]?.id ?? null) : null,
      next: at >= 0 ? (this.rows[at + 1]?.id ?? null) : null,
    };
  }

  #question(before: number | null): Question {
    return {
      filters: this.asked,
      sort: this.sort?.column ?? TIME,
      descending: this.sort?.descending ?? true,
      before,
      after: null,
      limit: PAGE,
    };
  }
  #read(question: Question, signal: AbortSignal, unattended: boolean): Promise<ListPage<Row>> {
    const { read } = this.#options;
    if (read) return read(question, signal, unattended);
    return ask<ListPage<Row>>(this.#path, question, signal, unattended);
  }
  async #load(run: AbortController, first: boolean): Promise<void> {
    try {
      for (let pages = 0; ; pages += 1) {
        const isFirst = first && pages === 0;
        const page = await this.#read(this.#question(this.#next), run.signal, false);
        if (run !== this.#run) return;
        this.rows = isFirst ? page.rows : [...this.rows, ...page.rows];
        this.#next = page.next;
        this.end = page.next === null;
        this.searchedTo = page.examined_to ?? null;
        if (isFirst) this.#takeOrder(page);
        if (page.rows.length > 0 || this.end || pages + 1 >= EMPTY_PAGES) break;
      }
      [this.state, this.problem] = ["idle", null];
    } catch (error) {
      if (run !== this.#run) return;
      [this.state, this.problem] = ["failed", problemOf(error)];
    }
  }
  /** Too many rows to be sorted come in the order of time. */
  #takeOrder(page: ListPage<Row>): void {
    this.sortable = page.sortable ? [TIME, ...(this.#options.sorts ?? [])] : [TIME];
    this.indexedFrom = page.indexed_from ?? null;
    if (this.sort && !this.sortable.includes(this.sort.column)) this.sort = null;
  }
  get #isNewestFirst(): boolean {
    return this.sort === null || (this.sort.column === TIME && this.sort.descending);
  }
  async #loadCount(run: AbortController, unattended = false): Promise<void> {
    if (this.#options.counts === false) return;
    try {
      const body = { filters: this.asked };
      const count = await ask<Count>(`${this.#path}/count`, body, run.signal, unattended);
      if (run === this.#run) this.known = count;
    } catch {
      return; // a list without its number is still a list
    }
  }
}

const kept = new Map<string, unknown>();

/** The list of a page: coming back to it finds its rows, selection and place again. */
export function keptList<Row extends { id: number }>(
  name: string,
  options: Options<Row>,
): List<Row> {
  const list =
    (kept.get(name) as List<Row> | undefined) ?? new List<Row>(`/console/api/lists/${name}`);
  list.use(options);
  kept.set(name, list);
  return list;
}

/** `unattended`: a refresh that must not extend the session. */
const ask = <T>(path: string, body: unknown, signal: AbortSignal, unattended: boolean) =>
  unattended ? poll<T>(path, signal, body) : api.post<T>(path, body, { signal });

/** Rows that are all here, as a list; sorted in the browser. */
export class LocalList<Row> implements ListSource<Row> {
  readonly state = $derived.by((): ListState => (this.#rows() === null ? "first" : "idle"));
  readonly problem = null;
  readonly end = true;
  readonly searchedTo = null;
  readonly filter = EMPTY_FILTER;
  readonly asked = {};
  readonly freshCount = 0;
  readonly selection = new Selection();
  sort = $state.raw<Sort | null>(null);
  active = $state<RowId | null>(null);
  place = 0;
  readonly sortable: readonly string[];
  readonly #rows: () => readonly Row[] | null;
  readonly #values: Readonly<Record<string, (row: Row) => string | number>>;
  readonly rows = $derived.by((): readonly Row[] => {
    const [all, sort] = [this.#rows() ?? [], this.sort];
    const value = sort && this.#values[sort.column];
    if (!sort || !value) return all;
    const sign = sort.descending ? -1 : 1;
    return [...all].sort((a, b) => sign * compare(value(a), value(b)));
  });
  readonly known = $derived.by((): Count | null => ({
    count: this.#rows()?.length ?? 0,
    exact: true,
  }));

  /** `rows` returns null while they load; `values` gives what each column is sorted by. */
  constructor(
    rows: () => readonly Row[] | null,
    values: Readonly<Record<string, (row: Row) => string | number>> = {},
  ) {
    this.#rows = rows;
    this.#values = values;
    this.sortable = Object.keys(values);
  }
  more(): void {
    return;
  }
  refresh(): void {
    return;
  }
  showFresh(): void {
    return;
  }
  sortBy(sort: Sort): void {
    this.sort = sort;
  }
}

const compare = (one: string | number, other: string | number): number =>
  typeof one === "number" && typeof other === "number"
    ? one - other
    : String(one).localeCompare(String(other), "en", { numeric: true });
