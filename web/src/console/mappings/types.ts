// What the endpoints of the mapping pages answer (bridge/console/http/mappings.py, trying.py).

export interface Issue {
  file: string;
  line: number;
  column: number;
  path: string;
  severity: string;
  message: string;
  code: string;
}

export interface Activation {
  version: string;
  at: number;
  actor: string;
  reason: string;
  origin: string;
}

export interface DraftNote {
  actor: string;
  saved_at: number;
  begun_on: string;
  revision: number;
  checked_version: string;
}

export interface Users {
  listeners: string[];
  destinations: string[];
}

export interface ReadingListener {
  name: string;
  address: string;
  mappings: string[];
  settings: string[];
  said: Activation | null;
}

export interface Overview {
  listeners: ReadingListener[];
  destinations: { name: string; address: string; mappings: string[] }[];
  definitions: {
    name: string;
    kind: string;
    in_force: Activation | null;
    used: Users;
    drafts: DraftNote[];
    files_differ: boolean;
  }[];
}

export type Files = Readonly<Record<string, string>>;

export interface Checked {
  kind: string;
  version: string;
  needed: string[];
  issues: Issue[];
}

export interface Definition extends Checked {
  name: string;
  in_force: Activation | null;
  held: string[];
  sources: Files;
  newer: Files;
  draft: (DraftNote & { files: Files }) | null;
  others: DraftNote[];
  used: Users;
}

export type Saved = DraftNote & Checked;

export interface Message {
  label: string;
  listener: string;
  payload: string;
  /** What a stored message was read with: the definition and its version. */
  mapping?: string;
  version?: string;
}

export interface Event {
  action: string;
  place: string;
  site: string;
  mrn: string;
  accession: string;
  clinical_info: Record<string, unknown>;
  link_signals: string[];
  [more: string]: unknown;
}

export interface Trial {
  accepted: boolean;
  issues: Issue[];
  events: Event[];
  /** Fields with a value, and repetitions and components of used ones: PID-3, PID-3[2], PID-3.1. */
  used: string[];
  unused: string[];
  /** What an outbound definition may write of the order and its report, and whether it does. */
  facts: { name: string; text: string; used: boolean }[];
  hl7: string[];
  segments: { name: string; place: string; fields: string[] }[];
}

export interface Trials {
  version: string;
  trials: Trial[];
  left: number;
}

export interface Comparison {
  after: string;
  compared: number;
  left: number;
  differing: number;
  fields: { field: string; count: number }[];
  messages: {
    label: string;
    differences: { field: string; before?: string; after?: string }[];
  }[];
}

export interface Proposal {
  text: string;
  charset: string;
  unread: number;
  messages: number;
}

/** A code that messages had and a code table has not (bridge/console/http/code_entries.py). */
export interface Unknown {
  mapping: string;
  code_table: string;
  /** Empty where it is not named. */
  code: string;
  place: string;
  policy: string;
  /** Whether it was looked up as a value, from right to left. */
  back: boolean;
  count: number;
  last_at: number;
  seen_at: number | null;
  seen_by: string;
  /** What one's own draft says by now. */
  value: string;
}

/** What a whole interface would change (bridge/console/http/packages.py). */
export interface Parcel {
  mark: string;
  channels: string[];
  definitions: { name: string; replaces: boolean }[];
  settings: string;
  files: { name: string; before: string | null; after: string }[];
}
