// From what the server committed to the events of the interface document, each once and in order.
//
// The one place that emits the events which ../embedding/contract.ts marks `feed`: it makes no
// difference to the host whether this page, another one or the API did it.
import {
  type EventName,
  type EventPayloads,
  type HostStatus,
  hostStatus,
} from "../embedding/contract";
import type { HostBus } from "../embedding/bus";
import type { LiveChange, LiveStream } from "./stream";

/** What is known of the report before the next change. */
export interface FeedState {
  status: HostStatus | null;
  /** Whether the report is this page's user's. */
  mine: boolean;
}

type Emitted = { [E in EventName]: [E, EventPayloads[E]] }[EventName];

const NOTHING = {};
/** After these nobody owns the report. */
const GIVEN_UP = ["report_unassigned", "report_reset"];
const THROWN_AWAY = ["report_discarded", "report_deleted"];

/** Returns the events that a change leads to, and what is known after it. */
export function translate(change: LiveChange, before: FeedState): [Emitted[], FeedState] {
  const status = hostStatus(change.status);
  const events = [...ownEvents(change, before)];
  if (!change.gone && status && status !== before.status) {
    events.push(["report_status_changed", { status }]);
  }
  const mine = change.mine ?? (!GIVEN_UP.includes(change.event) && before.mine);
  return [events, { status, mine }];
}

function* ownEvents(change: LiveChange, before: FeedState): Generator<Emitted> {
  const { content = "", html_content = "", signedAt = "", reportContent = "" } = change;
  switch (change.event) {
    case "report_signed":
    case "addendum_signed":
      yield [change.event, { signedAt, content, html_content }];
      break;
    case "report_content_updated":
      yield ["report_content_updated", { content }];
      break;
    case "addendum_content_updated":
      yield ["report_content_updated", { content: reportContent }];
      yield ["addendum_content_updated", { content }];
      break;
    case "report_unsigned":
    case "report_finalized":
    case "addendum_created":
    case "addendum_cancelled":
    case "addendum_unsigned":
    case "addendum_finalized":
      yield [change.event, NOTHING];
      break;
    case "report_discarded":
    case "report_deleted":
      yield ["report_discarded", NOTHING];
      break;
    case "report_reset":
      yield ["report_content_updated", { content: "" }];
      break;
    case "report_transferred":
    case "report_opened":
      if (before.mine && change.mine === false) {
        yield ["report_transferred", { newOwnerName: change.newOwnerName ?? "" }];
      }
  }
}

/**
 * Emits the feed's events to the host, from report_ready on: what came before it follows it.
 * `mine`: the report was opened as its user's own.
 */
export function forwardChanges(host: HostBus, live: LiveStream, mine: boolean): () => void {
  let state: FeedState | null = null;
  let early: LiveChange[] = [];

  function forward(change: LiveChange): void {
    // Of a report that is thrown away before it was opened there is nothing else to tell.
    const lost = THROWN_AWAY.includes(change.event);
    if (!state && !lost) return void early.push(change);
    const [events, after] = translate(change, state ?? { status: null, mine });
    state = after;
    host.identify(change.record);
    for (const [event, payload] of events) host.emit(event, payload);
  }

  const ends = [
    live.on("change", (data) => forward(data as LiveChange)),
    host.watch((event, payload) => {
      if (event !== "report_ready" || state) return;
      state = { status: (payload as EventPayloads["report_ready"]).status, mine };
      const waiting = early;
      early = [];
      waiting.forEach(forward);
    }),
  ];
  return () => ends.forEach((end) => end());
}
