// Converts commits of the server to events of the report service interface, each once and in order.
//
// The only place that emits the events marked `feed` in ../embedding/contract.ts. The host cannot
// distinguish changes by this page, another page or the API.
import {
  type EventName,
  type EventPayloads,
  type HostStatus,
  hostStatus,
} from "../embedding/contract";
import type { HostBus } from "../embedding/host/hostMessaging";
import type { LiveChange, LiveStream } from "./liveStream";

/** The state of the report before the next change. */
export interface FeedState {
  status: HostStatus | null;
  /** Whether the user of this page owns the report. */
  mine: boolean;
}

type Emitted = { [E in EventName]: [E, EventPayloads[E]] }[EventName];

const NOTHING = {};
/** After these changes the report has no owner. */
const WITHOUT_OWNER = ["report_unassigned", "report_reset"];
const DISCARDED = ["report_discarded", "report_deleted"];

/** Returns the events of a change and the new state. */
export function translate(change: LiveChange, before: FeedState): [Emitted[], FeedState] {
  const status = hostStatus(change.status);
  const events = [...ownEvents(change, before)];
  if (!change.gone && status && status !== before.status) {
    events.push(["report_status_changed", { status }]);
  }
  const mine = change.mine ?? (!WITHOUT_OWNER.includes(change.event) && before.mine);
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
 * Emits these events to the host after report_ready; earlier ones are queued until then.
 * `mine`: the user owned the report when it was opened.
 */
export function forwardChanges(host: HostBus, live: LiveStream, mine: boolean): () => void {
  let state: FeedState | null = null;
  let early: LiveChange[] = [];

  function forward(change: LiveChange): void {
    // A report that was discarded before it was opened has no other events.
    const discarded = DISCARDED.includes(change.event);
    if (!state && !discarded) return void early.push(change);
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
