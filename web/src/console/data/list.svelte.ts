// A list of the server, loaded page by page with keyset: a late answer never replaces a newer question.
import { api, problemOf, type Problem } from "./api";
import type { Count, ListPage } from "./api-types";
import { EMPTY_FILTER, type Filter } from "./filter";
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
  readonly sort: Sort | null;
  /** The columns that can be sorted now. */
  readonly sortable: readonly string[];
  readonly known: Count | null;
  /** Rows that arrived and are not shown yet. */
  readonly freshCount: number;
  active: RowId | null;
  readonly selection: Selection;
  more(): void;
  refresh(): void;
  showFresh(): void;
  sortBy(sort: Sort): void;
}

const PAGE = 100;
/** Empty pages with a continuation that are followed without asking. */
const EMPTY_PAGES = 5;
export const MOST_ROWS = 20_000;

interface Options<Row> {
  /** The path; the default reads `lists/LIST` with keyset. */
  read?: (question: Question, signal: AbortSignal) => Promise<ListPage<Row>>;
  count?: (filter: Filter, signal: AbortSignal) => Promise<Count>;
}
export interface Question {
  filters: Filter;
  sort: string | null;
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
  sort = $state.raw<Sort | null>(null);
  sortable = $state.raw<readonly string[]>([]);
  known = $state.raw<Count | null>(null);
  active = $state<RowId | null>(null);
  readonly selection = new Selection();
  #fresh = $state.raw<readonly Row[]>([]);
  #next: number | null = null;
  #run = new AbortController();
  readonly #read: (question: Question, signal: AbortSignal) => Promise<ListPage<Row>>;
  readonly #count: ((filter: Filter, signal: AbortSignal) => Promise<Count>) | null;

  constructor(path: string, options: Options<Row> = {}) {
    this.#read =
      options.read ?? ((question, signal) => api.post<ListPage<Row>>(path, question, { signal }));
    this.#count =
      options.count ??
      (options.read
        ? null
        : (filters, signal) => api.post<Count>(`${path}/count`, { filters }, { signal }));
  }

  get freshCount(): number {
    return this.#fresh.length;
  }

  /** Asks anew; the rows shown stay until the first answer. */
  start(filter: Filter, sort: Sort | null = null): void {
    this.#run.abort();
    const run = (this.#run = new AbortController());
    [this.filter, this.sort, this.state, this.known] = [filter, sort, "first", null];
    [this.#next, this.end, this.searchedTo, this.#fresh] = [null, false, null, []];
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
    if (!newest || this.sort || this.state === "first") return;
    try {
      const page = await this.#read({ ...this.#question(null), after: newest.id }, run.signal);
      if (run !== this.#run) return;
      const seen = new Set([...this.#fresh, ...this.rows].map((row) => row.id));
      const added = page.rows.filter((row) => !seen.has(row.id));
      if (added.length === 0) return;
      this.#fresh = [...added.sort((a, b) => b.id - a.id), ...this.#fresh];
      if (now) this.showFresh();
    } catch {
      return; // the next hint asks again
    }
  }
  showFresh(): void {
    this.rows = [...this.#fresh, ...this.rows];
    this.#fresh = [];
  }
  /** Puts changed rows in the place of the old ones. */
  replace(changed: readonly Row[]): void {
    const byId = new Map(changed.map((row) => [row.id, row]));
    if (byId.size) this.rows = this.rows.map((row) => byId.get(row.id) ?? row);
  }
  /** The loaded rows beside one, for "previous" and "next". */
  around(id: number): { previous: number | null; next: number | null } {
    const at = this.rows.findIndex((row) => row.id === id);
    return {
      previous: at > 0 ? (this.rows[at - 1]?.id ?? null) : null,
      next: at >= 0 ? (this.rows[at + 1]?.id ?? null) : null,
    };
  }
  stop(): void {
    this.#run.abort();
  }

  #question(before: number | null): Question {
    return {
      filters: this.filter,
      sort: this.sort?.column ?? null,
      descending: this.sort?.descending ?? true,
      before,
      after: null,
      limit: PAGE,
    };
  }
  async #load(run: AbortController, first: boolean): Promise<void> {
    try {
      for (let pages = 0; ; pages += 1) {
        const page = await this.#read(this.#question(this.#next), run.signal);
        if (run !== this.#run) return;
        this.rows = first && pages === 0 ? page.rows : [...this.rows, ...page.rows];
        this.#next = page.next;
        this.end = page.next === null;
        this.searchedTo = page.examined_to ?? null;
        this.sortable = page.sortable ?? this.sortable;
        if (page.rows.length > 0 || this.end || pages + 1 >= EMPTY_PAGES) break;
      }
      [this.state, this.problem] = ["idle", null];
    } catch (error) {
      if (run !== this.#run) return;
      [this.state, this.problem] = ["failed", problemOf(error)];
    }
  }
  async #loadCount(run: AbortController): Promise<void> {
    if (!this.#count) return;
    try {
      const count = await this.#count(this.filter, run.signal);
      if (run === this.#run) this.known = count;
    } catch {
      return; // a list without its number is still a list
    }
  }
}

/** Rows that are all here, as a list; sorted in the browser. */
export class LocalList<Row> implements ListSource<Row> {
  readonly state = $derived.by((): ListState => (this.#rows() === null ? "first" : "idle"));
  readonly problem = null;
  readonly end = true;
  readonly searchedTo = null;
  readonly filter = EMPTY_FILTER;
  readonly freshCount = 0;
  readonly selection = new Selection();
  sort = $state.raw<Sort | null>(null);
  active = $state<RowId | null>(null);
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
