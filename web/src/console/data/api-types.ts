// The answers of the console's endpoints that the new pages read. Times are milliseconds since the
// epoch. Members with `?` are left out without the permission. The OpenAPI of the console decides.

export interface Me {
  email: string;
  name: string;
  role: string;
  permissions: string[];
  /** The sites that the user is limited to; null permits all sites. */
  sites: string[] | null;
  account_id?: string;
  home?: "overview" | "start";
  theme?: string;
  build?: string;
  /** The zone of each visible site. */
  zones?: Record<string, string>;
}

export interface Heads {
  message: number;
  delivery: number;
  attention: number;
  deliveries_failed: number;
  worst: "ok" | "amber" | "red";
  drafts?: number;
  jobs: BackgroundJob[];
  activation: number;
  build: string;
  ended?: boolean;
}

export interface Hit {
  id: number | string;
  title: string;
  detail: string;
  state: string;
  at: number | null;
  exact: boolean;
}
export interface Found {
  orders: Hit[];
  messages: Hit[];
  deliveries: Hit[];
  channels: Hit[];
  definitions: Hit[];
  similar: string[];
  kinds: string[];
}

export interface ListPage<Row> {
  rows: Row[];
  /** Where the next page begins; null: there is none. A short page with `next` is normal. */
  next: number | null;
  /** The time down to which rows were examined, if the search stopped early. */
  examined_to?: number | null;
  complete?: boolean;
  sortable?: string[];
}
export interface Count {
  /** At most 10,000. */
  count: number;
  exact: boolean;
}
export interface Columns {
  values: Record<string, Record<string, string>>;
  /** Rows whose message is too large to read for a list. */
  left: number[];
}

export interface MessageRow {
  id: number;
  received_at: number;
  listener: string;
  message_type: string;
  state: string;
  ack_code: string;
  cause: string;
  cause_text: string;
  action: string;
  attempts: number;
  retransmits: number;
  flags: string[];
  mapping: string;
  mapping_version: string;
  settled_at: number | null;
  not_before: number | null;
}
export interface DeliveryRow {
  id: number;
  created_at: number;
  destination: string;
  event: string;
  report_id: string;
  state: string;
  attempts: number;
  cause: string;
  cause_text: string;
  action: string;
  not_before: number | null;
  sent_at: number | null;
  acknowledged_at: number | null;
  latency: number | null;
  waits_for: number | null;
}
export interface OrderRow {
  id: number;
  site: string;
  first_at: number;
  state: string;
  report: { id: string; status: string; at: number } | null;
  waits_for: string;
  sentence: string;
  last_delivery: { id: number; state: string } | null;
}
export interface SavedView {
  id: number;
  list: string;
  name: string;
  shared: boolean;
  owner: string;
  body: { filters: Record<string, string[]>; columns: string[]; sort: string | null };
}

export interface Need {
  key: string;
  severity: "red" | "amber";
  text: string;
  count: number;
  since: number;
  action: string;
  link: { list: string; filters: Record<string, string[]> } | { page: string; id: string } | null;
}
export interface ChannelSummary {
  kind: "listener" | "destination";
  name: string;
  sites: string[];
  shared: boolean;
  enabled: boolean;
  state: string;
  condition: { severity: "red" | "amber"; text: string } | null;
  rate: number | null;
  errors: number | null;
  share: number | null;
  waiting: number | null;
  oldest: number | null;
  p50: number | null;
  p99: number | null;
  spark: number[];
  spark_bad: number[];
  active_at: number | null;
  certificate: number | null;
}
export interface OverviewData {
  now: number;
  channels: ChannelSummary[];
  needs: Need[];
  totals: { received: number; sent: number };
}
export interface Series {
  step: number;
  from: number;
  outcomes: Record<string, number[]>;
  p50: (number | null)[];
  p99: (number | null)[];
  waiting: number[];
  oldest: (number | null)[];
  week_before: { outcomes: Record<string, number[]>; p50: (number | null)[] } | null;
  gaps: [number, number][];
}

/** A place in a message, such as `PID-3(2).1`. */
export type Place = string;
export interface Node {
  place: Place;
  name: string;
  type: string;
  text: string;
  /** A value of a table, decoded. */
  meaning: string;
  /** Where it stands in the raw text. */
  start: number;
  end: number;
  children: Node[];
}
export interface Content {
  raw: string;
  charset: string;
  tree: Node[];
  more: boolean;
  ack: {
    raw: string;
    code: string;
    errors: { code: string; place: string; text: string }[];
  } | null;
  calls: { call: string; place: string; status: number; code: string; took: number }[];
  notes: string[];
  damaged: boolean;
}
export type Outcome =
  | "used"
  | "empty"
  | "no segment"
  | "null"
  | "condition not met"
  | "pattern does not match"
  | "not in code table"
  | "transform gives nothing"
  | "an earlier source has a value"
  | "listener default";
export interface Source {
  text: string;
  file: string;
  line: number;
  outcome: Outcome;
  places: Place[];
  raw: string;
  value: string;
  note: string;
}
export interface Target {
  /** `tag:Modality`, `meta:Priority`, `order:control`. */
  target: string;
  value: string;
  explained: boolean;
  sources: Source[];
}
export interface TraceEvent {
  action: string;
  place: Place;
  site: string;
  mrn?: string;
  accession?: string;
  row: number | null;
  targets: Target[];
  links: { order: number; accession: string }[];
}
export interface Trace {
  definition: string;
  version: string;
  active: boolean;
  events: TraceEvent[];
  refusal: { code: string; place: string; text: string; file: string; line: number } | null;
}

export interface Group {
  subject: string;
  code: string;
  channel: string;
  count: number;
  first_at: number;
  last_at: number;
  words: string;
  action: string;
  filters: Record<string, string[]>;
}
export interface BackgroundJob {
  id: string;
  kind: string;
  title: string;
  actor: string;
  state: "waiting" | "running" | "done" | "stopped" | "failed";
  expected: number;
  handled: number;
  succeeded: number;
  failed: number;
  created_at: number;
  finished_at: number | null;
  result: unknown;
}
