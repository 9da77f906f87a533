// A search whose results are loaded page by page.
// Rows, query and position always belong together, even if responses arrive late or out of order.
import { api } from "./data/api";
import { latestOnly } from "./latest";
import type { SearchPage } from "./types";

type Query = Readonly<Record<string, unknown>>;

export class PagedSearch<Row> {
  found = $state.raw<SearchPage<Row> | null>(null);
  /** The query of the rows that are shown. */
  query = $state.raw<Query>({});
  #started = $state(0);
  readonly #path: string;
  readonly #latest = latestOnly();

  constructor(path: string) {
    this.#path = path;
  }

  /** Whether a new search is running: the rows shown are about to be replaced. */
  get loading(): boolean {
    return this.#started > 0;
  }

  async start(query: Query): Promise<void> {
    this.#started += 1;
    const first = await this.#load(query, null);
    this.#started -= 1;
    if (first) [this.found, this.query] = [first, query];
  }

  /** Adds the next page to the rows that are shown. */
  async loadMore(): Promise<void> {
    const shown = this.found;
    if (!shown || shown.further === null || this.loading) return;
    const more = await this.#load(this.query, shown.further);
    if (more) this.found = { rows: [...shown.rows, ...more.rows], further: more.further };
  }

  #load(query: Query, before: number | null): Promise<SearchPage<Row> | undefined> {
    return this.#latest(() => api.post<SearchPage<Row>>(this.#path, { ...query, before }));
  }
}
