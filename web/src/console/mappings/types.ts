// Responses of the endpoints of the mapping pages (bridge/console/http).

import type { Content, Trace } from "../data/api-types";
import type { OutlineRule } from "./rules/rules";

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
  /** What a shadow run had proved when the version was activated. */
  evidence: Evidence | null;
}

/** Of a shadow run: it may still have lasted. */
export interface Evidence {
  job: number;
  state: string;
  before: string;
  days: number;
  compared: number;
  differ: number;
  total: number;
  /** The share of messages that differ, and its margin. */
  estimate: { share: number; margin: number };
  /** Messages by changed outcome, such as `accepted_to_refused`. */
  classes: Readonly<Record<string, number>>;
}

/** The rules of a version, by target. */
export interface Outline {
  kind: string;
  rules: OutlineRule[];
}
export interface DraftInfo {
  actor: string;
  saved_at: number;
  begun_on: string;
  revision: number;
  checked_version: string;
}

export interface DefinitionUsers {
  listeners: string[];
  destinations: string[];
}

export interface ListenerMappings {
  name: string;
  address: string;
  mappings: string[];
  settings: string[];
  said: Activation | null;
}

export interface MappingOverview {
  /** False: there are more messages than were counted. */
  counts_exact: boolean;
  listeners: ListenerMappings[];
  destinations: { name: string; address: string; mappings: string[] }[];
  definitions: DefinitionSummary[];
}

export interface DefinitionSummary {
  name: string;
  /** `orders`, `patients`, `outside-reports`, `results`, `worklist`; "" if it has errors. */
  kind: string;
  in_force: Activation | null;
  used: DefinitionUsers;
  drafts: DraftInfo[];
  files_differ: boolean;
  /** Messages of the last 24 hours; 0 if it writes results. */
  counted: { messages: number; refused: number };
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
  draft: (DraftInfo & { files: Files }) | null;
  others: DraftInfo[];
  used: DefinitionUsers;
}

export type Saved = DraftInfo & Checked;

export interface SampleMessage {
  label: string;
  listener: string;
  payload: string;
  /** The definition and version that mapped a stored message. */
  mapping?: string;
  version?: string;
}

/** The kind of definitions that write messages; the others read them. One with errors has none. */
export const OUTBOUND = "results";
const OF_LISTENERS: readonly string[] = ["orders", "patients", "outside-reports"];
/** Whether a listener can use definitions of a kind. */
export const isOfListeners = (kind: string): boolean => OF_LISTENERS.includes(kind);

export interface MappedEvent {
  action: string;
  place: string;
  site: string;
  mrn: string;
  accession: string;
  clinical_info: Record<string, unknown>;
  link_signals: string[];
  outside?: Record<string, unknown>;
  [more: string]: unknown;
}

export interface TrialResult {
  accepted: boolean;
  issues: Issue[];
  events: MappedEvent[];
  /** The order and report fields available to an outbound definition, and whether it uses them. */
  facts: { name: string; text: string; used: boolean }[];
  hl7: string[];
  segments: { name: string; place: string; fields: string[] }[];
  /** What differs from the result of the active version. */
  changed?: { place: string; target: string; before: string; after: string }[];
  /** Of the chosen message. */
  trace?: Trace;
  content?: Content;
}

/** Replaces a part of a text; positions are UTF-16 units. */
export interface TextEdit {
  start: number;
  end: number;
  insert: string;
}

/** The edits of one file that change one rule, and the rule in words. */
export interface RuleEdit {
  file: string;
  edits: TextEdit[];
  said: string;
  issues: Issue[];
  /** The rule after the edits. */
  rule: OutlineRule | null;
}

/** Releases that a definition composes as they would be sent now, and who uses the definition. */
export interface ComposedReleases {
  destinations: string[];
  trials: (TrialResult & { label: string; definition: string })[];
  left: number;
}

export interface TrialResults {
  version: string;
  trials: TrialResult[];
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

/** A code in messages that a code table lacks. */
export interface UnmappedCode {
  mapping: string;
  code_table: string;
  /** Empty if the code may be patient data. */
  code: string;
  place: string;
  policy: string;
  /** Whether the table was searched in reverse: the code for a value. */
  back: boolean;
  count: number;
  first_at: number;
  last_at: number;
  seen_at: number | null;
  seen_by: string;
  /** The value in the user's own draft. */
  value: string;
}

/** The changes that an interface package would make. */
export interface InterfacePackage {
  mark: string;
  channels: string[];
  connections: {
    kind: "listener" | "destination";
    name: string;
    change: "new" | "changed" | "unchanged" | "disabled";
    differences: { name: string; before: unknown; after: unknown }[];
  }[];
  definitions: { name: string; replaces: boolean }[];
  settings_before: string;
  settings: string;
  files: { name: string; before: string | null; after: string }[];
  /** The number of new examples, by definition. */
  examples: Readonly<Record<string, number>>;
}
