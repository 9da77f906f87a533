// What a connection is judged by, in which order connections are shown, and the lists behind numbers.
import type { ChannelKind, ChannelSummary } from "../../data/api-types";
import { href, type PageName } from "../../frame/routes";
import { toneOf, type Tone } from "../../ui/states";

export const keyOf = ({ kind, name }: { kind: string; name: string }): string => `${kind}/${name}`;

/** The tone of a connection: that of its worst condition, else of its state. */
export const channelTone = (channel: ChannelSummary): Tone =>
  channel.condition?.severity ?? toneOf(channel.state, "connection");

const RANKS: Readonly<Record<Tone, number>> = {
  red: 0,
  amber: 1,
  paused: 2,
  info: 3,
  ok: 4,
  neutral: 5,
};
export const isProblem = (channel: ChannelSummary): boolean => RANKS[channelTone(channel)] < 2;

/** Problems first, then what waits longest, then by name. */
export function inOrder(one: ChannelSummary, other: ChannelSummary): number {
  return (
    RANKS[channelTone(one)] - RANKS[channelTone(other)] ||
    (one.oldest ?? Infinity) - (other.oldest ?? Infinity) ||
    one.name.localeCompare(other.name, "en", { numeric: true }) ||
    one.kind.localeCompare(other.kind)
  );
}

export interface Target {
  page: PageName;
  params: Readonly<Record<string, string>>;
  href: string;
}
const targetOf = (
  page: PageName,
  params: Readonly<Record<string, string>>,
  filters: Readonly<Record<string, string>> = {},
): Target => ({ page, params, href: href(page, params, new URLSearchParams(filters)) });

export const connectionTarget = (kind: string, name: string, tab?: string): Target =>
  targetOf("connection", { kind, name, ...(tab ? { tab } : {}) });

/** The list of the messages of a listener, or of the deliveries of a destination. */
export function listTarget(
  kind: ChannelKind,
  name: string,
  filters: Readonly<Record<string, string>> = {},
): Target {
  const isListener = kind === "listener";
  const own = isListener ? { channel: name } : { destination: name };
  return targetOf(isListener ? "messages" : "deliveries", {}, { ...own, ...filters });
}
