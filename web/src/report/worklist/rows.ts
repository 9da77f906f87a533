// The rows of the worklist. They are loaded in whole pages
// when the user scrolls to them. Independent of any component.
import type { Api } from "../../shared/api/client";

export interface Order {
  SiteID: string;
  PatientMRN: string;
  Accession: string;
  SiteLocation?: string;
  PatientName?: string;
  PatientBirthDate?: string;
  PatientSex?: string;
  Modality?: string;
  StudyDescription?: string;
  StudyDate?: string;
  BodyPartExamined?: string;
}

export interface PrelimRead {
  group: string;
  tag: string;
  readAt: number;
  readBy: string;
}

export interface ElsewhereMark {
  accession: string;
  at: number;
  sender: string;
  status: string;
}

export type ReportStatus = "Ordered" | "Draft" | "Preliminary" | "Final" | "Addendum";

export interface Row {
  reportId: string;
  status: ReportStatus;
  userEmail: string;
  ownerName: string;
  orders: Order[];
  /** The priority of the order (HL7 table 0485: S, A, R …); older services omit it. */
  priority?: string | null;
  /** When the order arrived (ISO 8601). */
  orderedAt?: string;
  createdAt: number;
  updatedAt: number;
  signedAt: number | null;
  prelim: PrelimRead | null;
  openAddendum: boolean;
  /** The orders that another system has reported; older services omit it. */
  reportedElsewhere?: ElsewhereMark[];
}

export interface Stretch {
  items: Row[];
  total: number;
  cursor: number;
}

export interface Query {
  SiteID: string;
  status: readonly ReportStatus[];
  owner: "" | "me" | "nobody";
  q: string;
  location: string;
  modality: string;
  /** A code of HL7 table 0485. */
  priority: string;
  group: string;
  tag: string;
  /** Also the reports with an unsigned addendum of the user. */
  addenda?: boolean;
  /** `only`: the orders that are reported elsewhere. */
  elsewhere?: "only";
  sort: string;
  descending: boolean;
}

export const PAGE = 100;
const KEPT_PAGES = 40;

/** Returns the URL of a page of the worklist. */
export function addressOf(base: string, query: Query, offset: number, limit: number): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const item of value) parts.append(name, String(item));
    else if (value !== "") parts.append(name, String(value));
  }
  parts.append("offset", String(offset));
  parts.append("limit", String(limit));
  return `${base}/rows?${parts.toString()}`;
}

/** The rows of one query. Calls `changed` when rows have changed. */
export class RowCache {
  total = 0;
  cursor = 0;
  loaded = false;
  failed = false;
  readonly #api: Api;
  readonly #base: string;
  readonly #query: Query;
  readonly #changed: () => void;
  #pages = new Map<number, readonly Row[]>();
  #stale = new Set<number>();
  #asked = new Map<number, Promise<void>>();
  #wanted: [number, number] = [0, 1];
  #closed = false;

  constructor(api: Api, base: string, query: Query, changed: () => void) {
    this.#api = api;
    this.#base = base;
    this.#query = query;
    this.#changed = changed;
  }

  /** The row at an index; undefined while it is loading. */
  at(index: number): Row | undefined {
    return this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** Loads missing rows between two indexes (end excluded). */
  want(from: number, to: number): Promise<unknown> {
    this.#wanted = [from, to];
    const calls = [];
    const last = Math.floor(Math.max(from, to - 1) / PAGE);
    for (let page = Math.floor(from / PAGE); page <= last; page += 1) {
      if (!this.#pages.has(page) || this.#stale.has(page)) calls.push(this.#fetch(page));
    }
    return Promise.all(calls);
  }

  /** Marks all rows as outdated: visible rows are reloaded now, others when shown. */
  refresh(): Promise<unknown> {
    for (const page of this.#pages.keys()) this.#stale.add(page);
    return this.want(...this.#wanted);
  }

  /** Drops the responses of running requests. */
  close(): void {
    this.#closed = true;
  }

  #fetch(page: number): Promise<void> {
    const asked = this.#asked.get(page);
    if (asked) {
      // A running request may be older than the change: repeat it afterwards.
      return this.#stale.has(page) ? asked.then(() => this.#fetch(page)) : asked;
    }
    const call = this.#ask(page);
    this.#asked.set(page, call);
    return call;
  }

  async #ask(page: number): Promise<void> {
    this.#stale.delete(page);
    try {
      const address = addressOf(this.#base, this.#query, page * PAGE, PAGE);
      const found = await this.#api.get<Stretch>(address);
      if (this.#closed) return;
      this.#pages.delete(page);
      this.#pages.set(page, found.items);
      this.total = found.total;
      this.cursor = Math.max(this.cursor, found.cursor);
      [this.loaded, this.failed] = [true, false];
      this.#forget();
    } catch {
      this.#stale.add(page);
      this.failed = true;
    } finally {
      this.#asked.delete(page);
      if (!this.#closed) this.#changed();
    }
  }

  #forget(): void {
    for (const page of this.#pages.keys()) {
      if (this.#pages.size <= KEPT_PAGES) return;
      this.#pages.delete(page);
    }
  }
}
