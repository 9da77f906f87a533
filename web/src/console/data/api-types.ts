// The answers of the console's endpoints. Times are milliseconds since the
// epoch. Members with `?` are left out without the permission. The OpenAPI of the console decides.

export interface Me {
  email: string;
  name: string;
  role: string;
  permissions: string[];
  /** The sites that the user is limited to; null permits all sites. */
  sites: string[] | null;
  theme?: string;
  /** The zone of each visible site. */
  zones: Record<string, string>;
  home: "overview" | "start";
  /** The first steps that are left; null: the role sets up no connections. */
  start: { left: number } | null;
}

export interface ListenerPlace {
  name: string;
  address: string;
  transport: "mllp" | "http" | "folder";
  /** Where senders connect. */
  host: string;
  port: number | null;
  tls: boolean;
  /** Only senders on the same machine reach it. */
  is_local: boolean;
  site: string;
  enabled: boolean;
  loaded: boolean;
  problem: string;
}
export interface DestinationPlace {
  name: string;
  address: string;
  transport: "mllp" | "http" | "folder";
  enabled: boolean;
  loaded: boolean;
  accepts: boolean;
  replied_at: number | null;
  problem: string;
}
export interface FirstMessage {
  id: number;
  at: number;
  listener: string;
  message_type: string;
  application: string;
  facility: string;
  state: string;
  cause_text: string;
  orders: { id: number; site: string; accession: string }[];
}
interface OneStep<Name extends string, Seen> {
  name: Name;
  done: boolean;
  /** What was found, or what is to be done. */
  words: string;
  seen: Seen;
}
export type SiteStep = OneStep<"site", { sites: { id: string; name: string; zone: string }[] }>;
export type SenderStep = OneStep<
  "sender",
  { listeners: ListenerPlace[]; message: FirstMessage | null }
>;
export type ReceiverStep = OneStep<"receiver", { destinations: DestinationPlace[] }>;
export type ReaderStep = OneStep<"reader", { enrolled?: number; invited?: number }>;
export interface FirstSteps {
  steps: [SiteStep, SenderStep, ReceiverStep, ReaderStep];
  left: number;
}
export interface SampleReply {
  accepted: boolean;
  code: string;
  words: string;
}

export interface Heads {
  message: number;
  applied: number;
  indexed: number;
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
  /** So few rows match that they can be sorted by a column. */
  sortable?: boolean;
  /** Messages, after an upgrade: from when on names and missing tags are found; null: all are. */
  indexed_from?: number | null;
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
  /** A code, and the same in words. */
  cause: string;
  cause_text: string;
  action: string;
  attempts: number;
  retransmits: number;
  /** Bits: 1 charset suspect, 2 reused control id, 4 refused before, 8 part of a message. */
  flags: number;
  mapping: string;
  mapping_version: string;
  settled_at: number | null;
  /** When the next attempt is due; 0: at once. */
  not_before: number;
}
export interface DeliveryRow {
  id: number;
  created_at: number;
  destination: string;
  event: string;
  report_id: string;
  control_id: string;
  state: string;
  attempts: number;
  cause: string;
  cause_text: string;
  action: string;
  not_before: number;
  sent_at: number | null;
  acknowledged_at: number | null;
  latency: number | null;
  /** An earlier delivery of the same report. */
  waits_for: number | null;
}
export interface OrderRow {
  id: number;
  site: string;
  first_at: number | null;
  state: string;
  first_message: number;
  last_message: number;
  report: { id: string; status: string; at: number | null } | null;
  last_delivery: { id: number; state: string } | null;
  /** The sentence of its page, as far as the bridge has stored it. */
  sentence: string;
  waits_for: string;
  tone: "ok" | "info" | "amber" | "red" | "neutral";
}
export interface StepRow {
  id: number;
  order_id: number | null;
  site: string;
  /** Local: 2026-11-30T14:30:00, a day, or "". */
  start: string;
  status: string;
  modality: string;
  /** AE titles. */
  stations: string[];
  location: string;
  step_id: string;
  changed_at: number;
}
/** A patient to be compared with others; "" is unknown. */
export interface KnownPatient {
  mrn: string;
  name: string;
  birth_date: string;
  sex: string;
}
export interface MergeRow {
  site: string;
  prior_mrn: string;
  mrn: string;
  merged_at: number | null;
  undone_at?: number | null;
}
export interface MergedOrder {
  accession: string;
  state: string;
  report_id: string;
  status: string | null;
  sent_since: boolean;
  /** Why it stays with the survivor: unknown, signed, shared; "" if it returns. */
  stays: string;
}
export interface MergeDetails extends MergeRow {
  undone_at: number | null;
  /** That of the merged number, and the survivor. */
  patients: KnownPatient[];
  orders: MergedOrder[];
  reports: number;
  priors: number;
  linked: number;
  results: {
    delivery_id: number;
    destination: string;
    accession: string;
    event: string;
    is_corrected: boolean;
    /** What a correction sends. */
    correction: "both" | "result_only" | "nothing";
  }[];
}
export interface AuditRow {
  id: number;
  at: number;
  email: string;
  action: string;
  subject: string;
  /** `done`, or the code of the refusal. */
  outcome: string;
  site: string;
  reason: string;
}
export interface SavedView {
  id: number;
  list: string;
  name: string;
  shared: boolean;
  owner: string;
  own: boolean;
  body: { filters: Record<string, string[]>; columns: string[]; sort: string };
}

export type ChannelKind = "listener" | "destination";
/** The DICOM port: its settings, its peers, and whom it refused within an hour. */
export interface DicomPort {
  now: number;
  /** Null: the port is off. */
  bind: string | null;
  settings: { name: string; value: unknown; help: string }[];
  peers: DicomPeer[];
  refusals: DicomRefusal[];
}
export interface DicomPeer {
  ae_title: string;
  enabled: boolean;
  addresses: string[];
  may: string[];
  sites: string[];
  shared: boolean;
  /** `file`, `console`, or `both` if the console overrides bridge.toml. */
  source: string;
  /** Of the last association. */
  address: string;
  associated_at: number | null;
  request: string;
  requested_at: number | null;
  /** To the last request. */
  answers: number;
  /** Refusals with its AE title within an hour. */
  refused: number;
}
export interface DicomRefusal {
  address: string;
  /** Empty if none was read. */
  title: string;
  reason: string;
  count: number;
  first_at: number;
  last_at: number;
  is_peer: boolean;
}
/** One connection on the overview. Counts are null if it also serves other sites. */
export interface ChannelSummary {
  kind: ChannelKind;
  name: string;
  sites: string[];
  /** It also serves other sites: its state is shown, its counts are not. */
  shared: boolean;
  enabled: boolean;
  /** running, starting, paused, off, not_loaded, silent, growing, refuses_sometimes, certificate,
   * not_responding, refusing, start_failed or expired. */
  state: string;
  /** The worst active alert condition. */
  condition: { severity: "red" | "amber"; text: string } | null;
  /** Messages in the last minute. */
  rate: number | null;
  /** Errors of the last hour, and their share of its messages (0 to 1). */
  errors: number | null;
  share: number | null;
  waiting: number | null;
  /** Since when (ms) the oldest waits. */
  oldest: number | null;
  /** Milliseconds to the acknowledgment or reply, in the last hour. */
  p50: number | null;
  p99: number | null;
  /** Messages of each quarter hour of the last 24 hours, and those of them that failed. */
  spark: number[];
  spark_bad: number[];
  active_at: number | null;
  /** When the certificate expires. */
  certificate: number | null;
}
export interface OverviewData {
  now: number;
  channels: ChannelSummary[];
  needs: AttentionData;
  /** Of the last 24 hours; null for users limited to sites. */
  totals: { received: number; sent: number } | null;
}
/** The page of one connection. */
export interface ChannelPage {
  summary: ChannelSummary;
  address: string;
  /** `file`, `console`, or `both` if the console overrides bridge.toml. */
  source: string;
  paused_at: number | null;
  paused_by: string;
  /** The next attempt to a destination that does not respond. */
  open_until: number | null;
  /** Why a destination gave no usable reply to the last attempt. */
  problem: string;
  /** The table of the settings, as in bridge.toml; defaults are left out. */
  settings: Record<string, unknown>;
  definitions: ActiveDefinition[];
  conditions: ChannelCondition[];
  handshakes: HandshakeFailure[];
  /** Nodes that could not start it. */
  start_failures: string[];
}
export interface ActiveDefinition {
  name: string;
  version: string;
  at: number;
  actor: string;
  reason: string;
}
export interface ChannelCondition {
  key: string;
  severity: "red" | "amber";
  text: string;
  action: string;
  raised_at: number;
}
/** Failed TLS handshakes of one peer for one reason. */
export interface HandshakeFailure {
  peer: string;
  reason: string;
  subject: string;
  /** False: the peer only connected and left, as a health check does. */
  is_trouble: boolean;
  count: number;
  last_at: number;
}
export type SpanName = "1h" | "24h" | "7d" | "30d";
/** Points from `from` on, one every `step` milliseconds. */
export interface Series {
  step: number;
  from: number;
  outcomes: Record<string, number[]>;
  p50: (number | null)[];
  p99: (number | null)[];
  waiting: (number | null)[];
  oldest: (number | null)[];
  week_before: { outcomes: Record<string, number[]>; p50: (number | null)[] } | null;
  /** When no node recorded anything. */
  gaps: [number, number][];
}

/** A place in a message, such as `PID-3[2].1`. */
export type Place = string;
export interface Node {
  place: Place;
  name: string;
  type: string;
  text: string;
  /** A value of a table, decoded. */
  meaning: string;
  /** Its place in the raw text, in UTF-16 units. */
  start: number;
  end: number;
  children: Node[];
}
export interface ReplyError {
  code: string;
  description: string;
  severity: string;
  place: string;
  /** The places of nodes of the message that the reply answers. */
  places: Place[];
  field: string;
  text: string;
}
export interface Content {
  raw: string;
  charset: string;
  /** Empty: the bytes are no HL7 message. */
  tree: Node[];
  more: boolean;
  is_dicom: boolean;
  /** The acknowledgment that was sent, or the last reply of a receiver. Code: '' if it is not HL7. */
  ack: { raw: string; code: string; errors: ReplyError[] } | null;
  damaged: boolean;
}
export interface EngineCall {
  call: string;
  place: string;
  /** 0: there was no response. */
  status: number;
  code: string;
  took: number;
}
export interface MessageContent extends Content {
  /** Those whom it names, their survivors, and those who have its orders. */
  patients: {
    site: string;
    said: KnownPatient | null;
    known: KnownPatient;
    merged_into: string;
    orders: number;
  }[];
  calls: EngineCall[];
  notes: string[];
}
export interface Attempt {
  kind: string;
  at: number;
  code: string;
  reason: string;
  retry_at: number | null;
  reply: string;
  errors: Omit<ReplyError, "places">[];
}
export interface DeliveryContent extends Content {
  attempts: Attempt[];
}
export interface Step {
  at: number;
  lane: "message" | "order" | "report" | "delivery" | "person";
  kind: string;
  text: string;
  detail: string;
  took: number | null;
  since_previous: number | null;
  /** Equal attempts that are folded into one step. */
  count: number;
  link: { page: "message" | "delivery"; id: number } | null;
  tone: string;
}
export interface OrderLink {
  id: number;
  site: string;
  report_id: string;
  accession?: string | null;
}
export interface Adjacent {
  previous: number | null;
  next: number | null;
}
export interface MessagePage {
  row: MessageRow;
  timeline: Step[];
  edits: { message_id: number; origin_id: number; at: number; email: string; reason: string }[];
  orders: OrderLink[];
  may: string[];
}
export interface MessageNeighbours {
  patient: Adjacent;
  order: Adjacent;
  sender: Adjacent;
}
export interface DeliveryPage {
  row: DeliveryRow & { reason: string };
  timeline: Step[];
  edits: { delivery_id: number; origin_id: number; at: number; email: string; reason: string }[];
  orders: OrderLink[];
  neighbours: Adjacent;
  may: string[];
}
export interface PlaceDifference {
  place: Place;
  name: string;
  before: string;
  after: string;
  kind: "changed" | "added" | "removed";
}
export interface Difference {
  /** The item that it is compared with; null: there is none. */
  other: number | null;
  differences: PlaceDifference[];
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
  | "listener default"
  | "failed";
export interface TraceStep {
  name: string;
  value: string;
}
export interface Source {
  kind: string;
  text: string;
  file: string;
  line: number;
  outcome: Outcome;
  places: Place[];
  raw: string;
  value: string;
  note: string;
  steps: TraceStep[];
}
export interface Target {
  /** `tag:Modality`, `meta:Priority`, `order:control`. */
  target: string;
  value: string;
  /** The event has it, also with an empty value. */
  present: boolean;
  explained: boolean;
  file: string;
  line: number;
  sources: Source[];
  steps: TraceStep[];
}
export interface TraceEvent {
  action: string;
  place: Place;
  note: string;
  site: string;
  mrn: string;
  accession: string;
  /** The row of order control or of events that decided. */
  row: { key: string; text: string; file: string; line: number } | null;
  targets: Target[];
  links: string[];
}
export interface Trace {
  definition: string;
  version: string;
  active: boolean;
  /** Why there is no trace. */
  note: string;
  events: TraceEvent[];
  refusal: {
    code: string;
    place: string;
    text: string;
    target: string;
    file: string;
    line: number;
  } | null;
  /** Further orders of the message. */
  left: number;
}

/** A row with a page of its own. */
export interface RowLink {
  page: "message" | "delivery";
  id: number;
}
export type StepTone = "" | "ok" | "info" | "amber" | "red" | "neutral";
export interface OrderStep {
  at: number;
  lane: "message" | "order" | "report" | "delivery" | "person";
  kind: string;
  text: string;
  detail: string;
  took: number | null;
  since_previous: number | null;
  count: number;
  link: RowLink | null;
  tone: StepTone;
}
export interface OrderSpan {
  kind: string;
  at: number;
  /** The time after the milestone before. */
  after: number | null;
  /** A destination. */
  to: string;
  tone: StepTone;
}
/** A version of a report that was not made here. */
export interface OutsideVersion {
  status: string;
  at: number;
  author: string;
  /** Null: the texts of the patient are too long for one response. */
  text: string | null;
  pdfs: number;
  omitted: string[];
}

export interface OrderPage {
  now: number;
  /** False: the report engine does not answer, and states are as last seen. */
  is_current: boolean;
  order: {
    id: number;
    site: string;
    state: string;
    first_at: number | null;
    accession: string;
    placer: string;
    filler: string;
    merged_from: string[];
    mrn?: string;
    name?: string;
    birth_date?: string;
    sex?: string;
    study?: string;
    modality?: string;
    study_uid?: string;
  };
  sentence: {
    text: string;
    waits_for: string;
    tone: "ok" | "info" | "amber" | "red" | "neutral";
    action: string;
    link: RowLink | null;
  };
  spans: OrderSpan[];
  steps: OrderStep[];
  report: {
    id: string;
    status: string;
    reader: string;
    addenda: number;
    changed_at: number | null;
    released_at: number | null;
  } | null;
  linked: { id: number; accession: string; state: string; study?: string }[];
  worklist: { place: number | null; total: number | null } | null;
  outside: { sender: string; title: string; versions: OutsideVersion[] }[];
  structured: { title: string; text: string | null; set_aside: boolean }[];
  messages: {
    id: number;
    received_at: number;
    listener: string;
    message_type: string;
    state: string;
    ack_code: string;
    attempts: number;
  }[];
  deliveries: {
    id: number;
    created_at: number;
    destination: string;
    event: string;
    state: string;
    attempts: number;
    sent_at: number | null;
    acknowledged_at: number | null;
    latency: number | null;
    waits_for: number | null;
  }[];
}

export interface Group {
  key: string;
  subject: "messages" | "deliveries" | "orders" | "feed" | "codes" | "conditions";
  severity: "red" | "amber";
  code: string;
  /** The kind and name of the connection; empty if it is about none. */
  kind: ChannelKind | "";
  channel: string;
  count: number;
  first_at: number;
  last_at: number;
  words: string;
  action: string;
  advice: string;
  /** The rows were processed, and only the result is to be checked. */
  applied: boolean;
  /** The list with its rows; empty if there is none. */
  list: string;
  filters: Record<string, string[]>;
  /** The row to look at, if there is one only. */
  reference: number | null;
}
export interface AttentionData {
  groups: Group[];
  complete: boolean;
  /** False: the alert conditions were not checked lately, such as just after a start. */
  checked: boolean;
}
export interface BackgroundJob {
  id: number;
  kind: string;
  title: string;
  actor: string;
  reason: string;
  state: "waiting" | "running" | "stopping" | "done" | "stopped" | "failed";
  /** The list of the rows, such as `messages`. */
  list: string;
  /** Of an export: raw, csv, deidentified. */
  format: string;
  expected: number;
  /** False: there are at least `expected` rows. */
  exact: boolean;
  handled: number;
  succeeded: number;
  failed: number;
  created_at: number;
  finished_at: number | null;
  /** Of an export: `name` and `bytes` of the file, kept `until`; of a failed job: `error`, `detail`. */
  result: Readonly<Record<string, unknown>>;
}
/** The result of a job for one row: `done`, `found`, or the code of an error with its text. */
export interface JobRow {
  row_id: number;
  outcome: string;
  detail: string;
}

/** A probe of an examination. */
export interface Probe {
  name: string;
  title: string;
}
export interface ProbeResult extends Probe {
  verdict: "ok" | "note" | "fault" | "skipped";
  words: string;
  expected: string;
  advice: string;
  took_ms: number;
}
/** Settings that fit an examined partner; without a name, of a new connection. */
export interface Proposal {
  kind: ChannelKind;
  name: string;
  begun_on: string;
  table: Record<string, unknown>;
  /** As in bridge.toml; "" if it is not set. */
  changes: { setting: string; before: string; after: string; why: string }[];
}
/** `GET examinations/ID`. */
export interface Examination {
  id: number;
  role: "receiver" | "sender";
  /** "destination ris", "receiver his.example:2575" or "sender at port 2579". */
  subject: string;
  destination: string;
  listener: string;
  address: string;
  tls: "none" | "verified" | "unverified";
  agreed: string;
  actor: string;
  state: BackgroundJob["state"];
  created_at: number;
  finished_at: number | null;
  /** Where the sender connects to; "" until the port is open. */
  listens: string;
  /** The number of messages; null until the end. */
  sent: number | null;
  error: string;
  detail: string;
  probes: Probe[];
  results: ProbeResult[];
  counts: Record<ProbeResult["verdict"], number>;
  /** null in lists, and while nothing was found. */
  proposal: Proposal | null;
}

export interface SpecificationFact {
  name: string;
  value: string;
}
/** `GET specifications/KIND/NAME`; `version` and `compare` are versions of one of its definitions. */
export interface Specification {
  kind: "listener" | "destination";
  name: string;
  definitions: { name: string; version: string; active_since: number | null }[];
  transport: SpecificationFact[];
  messages: { type: string; purpose: string }[];
  segments: {
    name: string;
    title: string;
    cardinality: string;
    note: string;
    /** The definition that writes the segment, if a destination has several. */
    within: string;
    fields: {
      place: Place;
      name: string;
      type: string;
      usage: "R" | "C" | "RE" | "O";
      cardinality: string;
      content: string;
      condition: string;
      codes: string;
      example: string;
    }[];
  }[];
  codes: { name: string; rows: { code: string; value: string; remark: string }[]; note: string }[];
  acknowledgments: SpecificationFact[];
  control: { control: string; status: string; action: string }[];
  replies: SpecificationFact[];
  examples: { title: string; text: string }[];
  /** The versions that can be chosen, of each definition the newest first. */
  versions: { definition: string; version: string; at: number; is_active: boolean }[];
  /** What changed since `compare`; null: nothing was compared. */
  changes: SpecificationChange[] | null;
}
export interface SpecificationChange {
  place: string;
  /** What changed; "" if all of it was added or removed. */
  fact: string;
  before: string;
  after: string;
  kind: "added" | "changed" | "removed";
}

/** What became of a part of a channel export. */
export type MirthOutcome = "converted" | "check" | "not converted";

export interface MirthFinding {
  line: number;
  what: string;
  outcome: MirthOutcome;
  text: string;
  hint: string;
  excerpt: string;
}

export interface MirthConversion {
  /** An interface package (ZIP) as base64; empty if nothing can be proposed. */
  package: string;
  files: Record<string, string>;
  channels: {
    name: string;
    version: string;
    line: number;
    listener: string;
    definition: string;
    destinations: string[];
  }[];
  report: MirthFinding[];
  issues: string[];
}
