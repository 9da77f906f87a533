// What the console's endpoints answer (bridge/console/http).

export interface Me {
  email: string;
  name: string;
  role: string;
  permissions: string[];
  /** The sites that the person is limited to; null: none. */
  sites: string[] | null;
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
}

export interface Channels {
  listeners: Channel[];
  destinations: Channel[];
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
}

export interface Deed {
  id: number;
  at: number;
  email: string;
  action: string;
  subject: string;
  outcome: string;
}
