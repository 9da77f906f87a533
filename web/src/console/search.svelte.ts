// A search and its pages. What is shown, what it was asked by and where it goes on belong together,
// however slowly answers come and whatever is filled in meanwhile.
import { api } from "./api";
import { newest } from "./newest";
import type { Found } from "./types";

type Question = Readonly<Record<string, unknown>>;

export class Search<Row> {
  found = $state.raw<Found<Row> | null>(null);
  /** What the rows that are shown were asked by. */
  asked = $state.raw<Question>({});
  #beginning = $state(0);
  readonly #path: string;
  readonly #ask = newest();

  constructor(path: string) {
    this.#path = path;
  }

  /** Whether other rows are on their way: those that are shown are not gone on with. */
  get beginning(): boolean {
    return this.#beginning > 0;
  }

  async begin(question: Question): Promise<void> {
    this.#beginning += 1;
    const first = await this.#look(question, null);
    this.#beginning -= 1;
    if (first) [this.found, this.asked] = [first, question];
  }

  /** Adds the page behind the rows that are shown. */
  async goOn(): Promise<void> {
    const shown = this.found;
    if (!shown || shown.further === null || this.beginning) return;
    const more = await this.#look(this.asked, shown.further);
    if (more) this.found = { rows: [...shown.rows, ...more.rows], further: more.further };
  }

  #look(question: Question, before: number | null): Promise<Found<Row> | undefined> {
    return this.#ask(() => api.post<Found<Row>>(this.#path, { ...question, before }));
  }
}
