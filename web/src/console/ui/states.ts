// The tone and the words of each state: one table, so that shape, colour and text never differ.

export type Tone = "ok" | "info" | "amber" | "red" | "neutral" | "paused";
export type StateKind = "message" | "delivery" | "connection" | "order" | "report";

const MESSAGE: Readonly<Record<string, Tone>> = {
  done: "ok",
  accepted: "ok",
  queued: "info",
  claimed: "info",
  retrying: "amber",
  parked: "red",
  refused: "red",
  ignored: "neutral",
  cancelled: "neutral",
  skipped: "neutral",
};
const CONNECTION: Readonly<Record<string, Tone>> = {
  running: "ok",
  starting: "info",
  silent: "amber",
  growing: "amber",
  refuses_sometimes: "amber",
  certificate: "amber",
  not_responding: "red",
  refusing: "red",
  start_failed: "red",
  expired: "red",
  off: "neutral",
  not_loaded: "neutral",
  paused: "paused",
};
const ORDER: Readonly<Record<string, Tone>> = {
  sent: "ok",
  final: "ok",
  addendum: "ok",
  ordered: "info",
  awaited: "info",
  draft: "info",
  preliminary: "info",
  late: "amber",
  held: "amber",
  differs: "red",
  parked: "red",
  cancelled: "neutral",
  discontinued: "neutral",
};
const TONES: Readonly<Record<StateKind, Readonly<Record<string, Tone>>>> = {
  message: MESSAGE,
  delivery: MESSAGE,
  connection: CONNECTION,
  order: ORDER,
  report: ORDER,
};

/** The tone of a state; an unknown state is neutral. */
export function toneOf(state: string, kind: StateKind = "message"): Tone {
  return TONES[kind][state] ?? "neutral";
}
