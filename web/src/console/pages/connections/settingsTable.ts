// Converts between the values of the connection form and the settings table of bridge.toml.

export interface FieldSpec {
  /** The key in bridge.toml; keys of an inner table start with its name: "tls.key". */
  name: string;
  kind: "text" | "number" | "seconds" | "yes" | "choice" | "several" | "words" | "pairs" | "file";
  choices: string[];
  default: unknown;
  required: boolean;
  help: string;
}

export type Table = Record<string, unknown>;
export type Value = string | boolean | string[];
export type Values = Record<string, Value>;
export type Transport = "mllp" | "web" | "folder" | "dicom" | "dicomweb";

/** What precedes the typed part of an address. */
const PREFIX: Record<Transport, string> = {
  mllp: "",
  web: "",
  folder: "folder:",
  dicom: "dicom://",
  dicomweb: "dicomweb+",
};
const IS_URL = /^https?:\/\//;

/** Returns the transport of an address. */
export function transportOf(address: string): Transport {
  if (IS_URL.test(address)) return "web";
  const found = Object.entries(PREFIX).find(([, prefix]) => prefix && address.startsWith(prefix));
  return found ? (found[0] as Transport) : "mllp";
}

/** Returns the part of an address that the user types. */
export const typed = (address: string): string =>
  address.slice(PREFIX[transportOf(address)].length);

/** Returns the address for a typed text. */
export function addressOf(transport: Transport, text: string): string {
  const bare = text.trim();
  if (!bare) return "";
  const isUrl = transport === "web" || transport === "dicomweb";
  return PREFIX[transport] + (isUrl && !IS_URL.test(bare) ? `http://${bare}` : bare);
}

/** Returns the form values of a settings table; missing settings have their defaults. */
export function valuesOf(fields: readonly FieldSpec[], table: Table): Values {
  return Object.fromEntries(
    fields.map((field) => {
      const own = field.name.split(".").reduce<unknown>(part, table);
      return [field.name, shown(field, own ?? field.default)];
    }),
  );
}

/** Returns the settings table of a form without defaults. `secure`: it has a table for TLS. */
export function tableOf(fields: readonly FieldSpec[], values: Values, secure: boolean): Table {
  const table: Table = { tls: {} };
  for (const field of fields) {
    const value = values[field.name] ?? "";
    if (isDefault(field, value) && !field.required) continue;
    const [key, ...outer] = field.name.split(".").reverse() as [string, string?];
    const own = outer[0] ? ((table[outer[0]] ??= {}) as Table) : table;
    own[key] = plain(field, value);
  }
  if (!secure) delete table["tls"];
  return table;
}

/** The form value of a field that is not set. */
export const defaultOf = (field: FieldSpec): Value => shown(field, field.default);
export const isDefault = (field: FieldSpec, value: Value): boolean =>
  JSON.stringify(value) === JSON.stringify(defaultOf(field));

/** Fields whose items may contain blanks, as AE titles may. */
const PHRASES = ["stations", "locations"];

/** The items of a field that takes several words, or several phrases between commas. */
export const wordsOf = (value: Value, arePhrases = false): string[] =>
  Array.isArray(value)
    ? value
    : String(value)
        .split(arePhrases ? /\s*,\s*/ : /[\s,]+/)
        .filter(Boolean);

function shown(field: FieldSpec, value: unknown): Value {
  if (field.kind === "yes") return value === true;
  if (field.kind === "several") return Array.isArray(value) ? value.map(String) : [];
  if (value === null || value === undefined) return "";
  if (field.kind === "words") return (value as unknown[]).join(", ");
  if (field.kind === "pairs")
    return Object.entries(value as Table)
      .map(([key, text]) => `${key} = ${String(text)}`)
      .join("\n");
  return field.kind === "seconds" && typeof value === "number" ? `${value}s` : String(value);
}

function plain(field: FieldSpec, value: Value): unknown {
  if (typeof value !== "string") return value;
  const text = value.trim();
  if (field.kind === "words") return wordsOf(text, PHRASES.includes(field.name));
  if (field.kind === "pairs") return Object.fromEntries(text.split("\n").flatMap(pair));
  const number = /^\d+(\.\d+)?$/.test(text) && ["number", "seconds"].includes(field.kind);
  return number ? Number(text) : text;
}

const part = (table: unknown, key: string): unknown => (table as Table | undefined)?.[key];

function pair(line: string): [string, string][] {
  const at = line.lastIndexOf("=");
  if (!line.trim()) return [];
  return [[(at < 0 ? line : line.slice(0, at)).trim(), at < 0 ? "" : line.slice(at + 1).trim()]];
}
