// The filters of a list: what is in the address, and what must not be.
//
// Patient data is never part of an address: private filters lie in the session storage of the tab,
// under a random key that the history entry names. The address says only that there are some.

export type FilterType = "choice" | "text" | "number" | "time" | "presence";

export interface FilterField {
  name: string;
  /** "state", "accession": how a chip begins. */
  title: string;
  type: FilterType;
  /** Its values are patient data. */
  private?: boolean;
  options?: readonly { id: string; title: string; detail?: string | undefined }[];
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

const isPrivate = (fields: readonly FilterField[], name: string) =>
  fields.find((field) => field.name === name)?.private === true;
const escape = (value: string) => value.replace(/[\\,]/g, "\\$&");
const split = (text: string) =>
  (text.match(/(?:\\.|[^\\,])+/g) ?? []).map((value) => value.replace(/\\(.)/g, "$1"));

/** The part of a filter that may stand in an address and in a saved view. */
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
  for (const field of fields) {
    const text = field.private ? null : query.get(field.name);
    if (text) filter[field.name] = split(text);
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

/** Returns the filter with the values of one field; no values remove it. */
export function withField(filter: Filter, name: string, values: readonly string[]): Filter {
  const others = Object.fromEntries(Object.entries(filter).filter(([other]) => other !== name));
  return values.length ? { ...others, [name]: values } : others;
}

export const sameFilter = (one: Filter, other: Filter): boolean =>
  JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
const sorted = (filter: Filter) =>
  Object.entries(filter)
    .filter(([, values]) => values.length)
    .sort(([a], [b]) => a.localeCompare(b));
