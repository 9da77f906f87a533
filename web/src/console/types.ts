// Responses of the console's endpoints (bridge/console/http).

export interface Me {
  email: string;
  name: string;
  role: string;
  permissions: string[];
  /** The sites that the user is limited to; null permits all sites. */
  sites: string[] | null;
  /** The user has not enrolled yet. */
  pending: boolean;
  secondFactor: boolean;
  disabled: boolean;
}

export interface ConnectionStatus {
  name: string;
  address: string;
  paused_at: number | null;
  paused_by: string;
  active_at: number | null;
  certificate: number | null;
  /** The next attempt to a destination that is not responding; null: it responds. */
  open_until: number | null;
  /** The number of consecutive messages that a destination has refused. */
  refused: number;
  /** Whether a running node has loaded it. */
  loaded: boolean;
  sites: string[];
  /** Whether it also serves other sites: users limited to sites see it, but cannot change it. */
  shared: boolean;
  enabled: boolean;
  /** Why a node could not start it; empty: all nodes started it. */
  trouble: string;
  /** Why a destination gave no usable reply to the last attempt; empty: it did. */
  problem: string;
  /** Failed TLS handshakes by peer and reason, newest first. */
  handshake_failures: HandshakeFailure[];
  /** Where it is configured: `file`, `console`, or `both` if the console overrides bridge.toml. */
  source: string;
  /** An alert is raised after this many milliseconds without a message; 0: never. */
  silence: number;
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

export interface ConnectionList {
  listeners: ConnectionStatus[];
  destinations: ConnectionStatus[];
}

/** A processed message or result that needs attention. */
export interface ExceptionRow {
  kind: string;
  row_id: number;
  code: string;
  noted_at: number;
  seen_at: number | null;
  seen_by: string;
  message: number | null;
  orders: { accession: string; report_id: string }[];
  /** What the receiver wrote about a result that it refused later. */
  reason: string;
}

export interface SiteRow {
  SiteID: string;
  name: string;
  timeZone?: string;
  signDelay?: number;
}
