// The filters of a list: what is in the address, and what must not be.
//
// Patient data is never part of an address: private filters lie in the session storage of the tab,
// under a random key that the history entry names. The address says only that there are some.
import { momentOf } from "./moments";

export type FilterType = "choice" | "text" | "time" | "row";

export interface FilterOption {
  id: string;
  title: string;
  detail?: string | undefined;
}

/** `choice`: any of several values; `text`: one; `time`: a span; `row`: the id of a row. */
export interface FilterField {
  name: string;
  /** "state", "accession": how a chip begins. */
  title: string;
  type: FilterType;
  /** Its values may be patient data. */
  private?: boolean | undefined;
  options?: readonly FilterOption[];
  /** A second filter that belongs to the chip: the end of a span, the kind of a number. */
  with?: string | undefined;
  /** The values of `with` for a text, such as the kinds of a number; the first is its absence. */
  kinds?: readonly FilterOption[] | undefined;
  /** It is no chip: something else on the page chooses it. */
  hidden?: boolean | undefined;
  /** A choice may have values that are not offered. */
  open?: boolean | undefined;
  /** Other words that find the field. */
  aliases?: readonly string[];
  placeholder?: string;
}

/** The values of each field; a list matches a row if every field has one of its values. */
export type Filter = Readonly<Record<string, readonly string[]>>;

export const EMPTY_FILTER: Filter = {};
const PRIVATE = "private";
const SEPARATOR = ",";
const STORE = "console-private-filter-";

const namesOf = (field: FilterField) => (field.with ? [field.name, field.with] : [field.name]);
const isPrivate = (fields: readonly FilterField[], name: string) =>
  fields.some((field) => field.private && namesOf(field).includes(name));
const escape = (value: string) => value.replace(/[\\,]/g, "\\$&");
const split = (text: string) =>
  (text.match(/(?:\\.|[^\\,])+/g) ?? []).map((value) => value.replace(/\\(.)/g, "$1"));

/** The part of a filter that an address and a saved view may have. */
export function publicPart(filter: Filter, fields: readonly FilterField[]): Filter {
  return Object.fromEntries(Object.entries(filter).filter(([name]) => !isPrivate(fields, name)));
}
export function privatePart(filter: Filter, fields: readonly FilterField[]): Filter {
  return Object.fromEntries(Object.entries(filter).filter(([name]) => isPrivate(fields, name)));
}

/** Writes a filter as query parameters; private values only leave `private=1`. */
export function toQuery(filter: Filter, fields: readonly FilterField[]): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, values] of Object.entries(publicPart(filter, fields)))
    if (values.length) query.set(name, values.map(escape).join(SEPARATOR));
  if (Object.values(privatePart(filter, fields)).some((values) => values.length))
    query.set(PRIVATE, "1");
  return query;
}

/** Reads the filter of an address; unknown names and private fields are ignored. */
export function fromQuery(query: URLSearchParams, fields: readonly FilterField[]): Filter {
  const filter: Record<string, string[]> = {};
  for (const name of fields.filter((field) => !field.private).flatMap(namesOf)) {
    const text = query.get(name);
    if (text) filter[name] = split(text);
  }
  return filter;
}

export const hasPrivate = (query: URLSearchParams): boolean => query.get(PRIVATE) === "1";

/** Keeps the private part of a filter in this tab; returns the key for the history entry. */
export function keepPrivate(filter: Filter, storage: Storage): string {
  const key = crypto.randomUUID();
  storage.setItem(STORE + key, JSON.stringify(filter));
  return key;
}
export function readPrivate(key: string | undefined, storage: Storage): Filter {
  try {
    return JSON.parse((key && storage.getItem(STORE + key)) || "{}") as Filter;
  } catch {
    return EMPTY_FILTER;
  }
}
/** Removes all private filters of this tab, at sign-out. */
export function forgetPrivate(storage: Storage): void {
  for (const key of Object.keys(storage)) if (key.startsWith(STORE)) storage.removeItem(key);
}

/** Returns the filter with other values of some of its names; no values remove a name. */
export function withValues(filter: Filter, changed: Filter): Filter {
  const all = Object.entries({ ...filter, ...changed });
  return Object.fromEntries(all.filter(([, values]) => values.length > 0));
}
/** Returns the filter without a field. */
export const withoutField = (filter: Filter, field: FilterField): Filter =>
  withValues(filter, Object.fromEntries(namesOf(field).map((name) => [name, []])));

/** What the server is asked: the values as it takes them. */
export type ServerFilters = Readonly<Record<string, string | number | readonly string[]>>;

/**
 * Returns the filters as the server takes them. Times become milliseconds now, so that the pages of
 * one list, its count and a selection mean the same span.
 */
export function toServer(
  filter: Filter,
  fields: readonly FilterField[],
  zone: string,
  now: number,
): ServerFilters {
  const found: Record<string, string | number | readonly string[]> = {};
  for (const field of fields) {
    for (const name of namesOf(field)) {
      const values = filter[name] ?? [];
      const [first] = values;
      if (first === undefined) continue;
      if (field.type === "time") found[name] = momentOf(first, zone, now);
      else if (field.type === "row") found[name] = Number(first);
      else found[name] = field.type === "choice" && name === field.name ? values : first;
    }
  }
  return found;
}

export const sameFilter = (one: Filter, other: Filter): boolean =>
  JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
const sorted = (filter: Filter) =>
  Object.entries(filter)
    .filter(([, values]) => values.length)
    .sort(([a], [b]) => a.localeCompare(b));
