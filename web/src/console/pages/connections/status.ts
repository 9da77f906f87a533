// A connection as the list of connections has it, and its state in one word with its detail.
import { t } from "../../texts";
import { durationText, exactTime } from "../../ui/time";
import type { HandshakeFailure } from "../../data/api-types";

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
export interface ConnectionList {
  listeners: ConnectionStatus[];
  destinations: ConnectionStatus[];
}

export function stateOf(connection: ConnectionStatus, now: number): string {
  if (!connection.enabled) return "off";
  if (connection.trouble) return "start_failed";
  if (connection.paused_at !== null) return "paused";
  if (!connection.loaded) return "not_loaded";
  if (connection.open_until !== null) return "not_responding";
  if (connection.refused > 0) return "refusing";
  return isSilent(connection, now) ? "silent" : "running";
}
const silentFor = (connection: ConnectionStatus, now: number) =>
  now - (connection.active_at ?? now);
const isSilent = (connection: ConnectionStatus, now: number) =>
  connection.silence > 0 && silentFor(connection, now) > connection.silence;

/** Who paused it, what failed, when the next attempt is; empty if the state says all. */
export function stateDetail(connection: ConnectionStatus, now: number, zone: string): string {
  const { trouble, paused_by, open_until, refused, problem } = connection;
  switch (stateOf(connection, now)) {
    case "start_failed":
      return trouble;
    case "paused":
      return t("channel.by", { name: paused_by });
    case "not_loaded":
      return t("channel.not_loaded");
    case "not_responding":
      return (open_until ?? 0) > now
        ? t("channel.retry_at", { at: exactTime(open_until ?? 0, now, zone) })
        : t("channel.retrying");
    case "refusing":
      return [t("channel.refused", { count: refused }), problem].filter(Boolean).join(". ");
    case "silent":
      return t("channel.silent_for", { time: durationText(silentFor(connection, now), false) });
    default:
      return "";
  }
}

/** Returns the last part of the key of its label. */
export const transportOf = (address: string): string =>
  /^(folder|dicom|http)/.exec(address)?.[0] ?? "mllp";
