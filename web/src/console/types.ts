// What the console's endpoints answer (bridge/console/http).

export interface Me {
  email: string;
  name: string;
  role: string;
  permissions: string[];
  /** The sites that the person is limited to; null: none. */
  sites: string[] | null;
  /** The owner has not enrolled yet. */
  pending: boolean;
  secondFactor: boolean;
  disabled: boolean;
}

export interface MessageRow {
  id: number;
  received_at: number;
  listener: string;
  message_type: string;
  state: string;
  ack_code: string;
  attempts: number;
  error_code: string;
  error_place: string;
  code: string;
  detail: string;
}

export interface DeliveryRow {
  id: number;
  destination: string;
  report_id: string;
  event: string;
  state: string;
  attempts: number;
  code: string;
  detail: string;
  created_at: number;
  acknowledged_at: number | null;
}

export interface Found<Row> {
  rows: Row[];
  further: number | null;
}

export interface Step {
  kind: string;
  at: number | null;
  name: string;
  code: string;
  count: number;
  delivery: number | null;
  message: number | null;
}

export interface TreeField {
  place: string;
  text: string;
  parts: { place: string; text: string }[];
}

export interface Content {
  raw: string;
  ack: string;
  tree: { place: string; name: string; fields: TreeField[] }[];
  mapped?: { events: unknown[]; issues: string[]; used: string[]; unused: string[] };
}

export interface Channel {
  name: string;
  address: string;
  paused_at: number | null;
  paused_by: string;
  active_at: number | null;
  certificate: number | null;
  /** Until when a destination that does not answer is left alone; null: it answers. */
  open_until: number | null;
  /** How many messages in a row a destination has refused. */
  refused: number;
  /** Whether a running node has loaded it. */
  loaded: boolean;
  sites: string[];
  /** Whether it serves others' sites too: seen, and not changed, by whom sites limit. */
  shared: boolean;
  /** Whether it is not switched off. */
  enabled: boolean;
  /** Why a node could not begin with it; empty: all could. */
  trouble: string;
  /** Whose word it is: `file`, `console`, or `both` where the console's overrules bridge.toml. */
  source: string;
  /** After how many milliseconds without a message somebody is told; 0: never. */
  silence: number;
}

/** One step of a connection that was tried. */
export interface Trial {
  name: string;
  ok: boolean;
  code: string;
  took: number;
  expires: number | null;
}

export interface Channels {
  listeners: Channel[];
  destinations: Channel[];
}

/** What was applied and still wants a person. */
export interface Concern {
  kind: string;
  row_id: number;
  code: string;
  noted_at: number;
  seen_at: number | null;
  seen_by: string;
  message: number | null;
  orders: { accession: string; report_id: string }[];
}

export interface Queue {
  waiting: number;
  parked: number;
  oldest: number | null;
}

export interface Overview extends Channels {
  now: number;
  inbox: Record<string, Queue>;
  outbox: Record<string, Queue>;
  received: Record<string, Record<string, number>>;
  sent: Record<string, Record<string, number>>;
  /** Counts in twelve parts of the last hour; null for who is limited to sites. */
  hour: { received: number[]; sent: number[] } | null;
  /** What was applied, still wants a person, and nobody has seen. */
  concerns: number;
  alerts: { key: string; severity: string; text: string; raised_at: number }[];
}

export interface Order {
  site: string;
  mrn: string;
  accession: string;
  state: string;
  report_id: string;
  status: string | null;
  now: string;
}

export interface Whereabouts {
  orders: Order[];
  deliveries: DeliveryRow[];
  messages: MessageRow[];
  steps: Step[];
}

export interface Deed {
  id: number;
  at: number;
  email: string;
  action: string;
  subject: string;
  outcome: string;
  site: string;
  reason: string;
}

/** An event of the report service's trail. */
export interface AuditEvent {
  sequence: number;
  at: number;
  action: string;
  outcome: string;
  userEmail: string;
  tokenId: number | null;
  reportId: string | null;
  details: Record<string, unknown>;
}

/** A delivery that its receiver accepted. */
export interface Sent {
  id: number;
  destination: string;
  report_id: string;
  event: string;
  code: string;
  attempts: number;
  acknowledged_at: number;
}

export interface Verdict {
  events: number;
  head: string;
  /** The first entry that is not as it was written; null: all are. */
  broken: number | null;
}

/** A message made of another by a person. */
export interface Edit {
  message_id: number;
  origin_id: number;
  at: number;
  email: string;
  reason: string;
}

/** A message laid out to be edited, a segment a line. */
export interface Sheet {
  segments: string[];
  charset: string;
}

export interface Fault {
  code: string;
  place: string;
  text: string;
}

export interface Replayed {
  queued: number;
  later: number;
  failed: { id: number; detail: string }[];
  more: boolean;
}

export interface SiteRow {
  SiteID: string;
  name: string;
  timeZone?: string;
  signDelay?: number;
}

export interface WorklistRow {
  reportId: string;
  status: string;
  ownerName: string | null;
  createdAt: number;
  updatedAt: number;
  orders: {
    Accession?: string;
    PatientMRN?: string;
    PatientName?: string;
    StudyDescription?: string;
    Modality?: string;
  }[];
}

export interface Listed {
  rows: WorklistRow[];
  next: string;
}

export interface Grant {
  /** Empty while the address of an old grant has no account. */
  accountId: string;
  email: string;
  role: string;
  bodies: boolean;
  /** The sites that the person is limited to; null: none. */
  sites: string[] | null;
  /** The owner has not enrolled yet. */
  pending: boolean;
  secondFactor: boolean;
  disabled: boolean;
}
