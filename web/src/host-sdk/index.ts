// The host's side of an embedded report: receive events, send actions, pre-warm and open it.
//
// One module without dependencies. It accepts messages only from the given frame and origin, and sends
// only to that origin (interface document, Authentication 9).
import type {
  ActionName,
  ActionParameters,
  Envelope,
  EventName,
  EventPayloads,
  ExtraName,
  ExtraPayloads,
} from "./protocol";

export type * from "./protocol";

type Payloads = EventPayloads & ExtraPayloads;

/** A received event: its own members and those of every event. */
export type ReportEvent<E extends EventName | ExtraName> = Envelope & { type: E } & Payloads[E];

export type AnyReportEvent = { [E in EventName | ExtraName]: ReportEvent<E> }[
  EventName | ExtraName];

type Parameters<A extends ActionName> =
  ActionParameters[A] extends Record<string, never> ? [] : [parameters: ActionParameters[A]];

export interface ReportConnection {
  /** Subscribes to one kind of event, or all events ("*"); returns the unsubscribe function. */
  on<E extends EventName | ExtraName>(
    event: E,
    handler: (event: ReportEvent<E>) => void,
  ): () => void;
  on(event: "*", handler: (event: AnyReportEvent) => void): () => void;
  /** Resolves with the next event of a kind. */
  next<E extends EventName | ExtraName>(event: E): Promise<ReportEvent<E>>;
  /** Sends an action; the app queues a few until report_ready. */
  send<A extends ActionName>(action: A, ...parameters: Parameters<A>): void;
  /** Loads a link into the frame: a session link to pre-warm it, a report link to open a study. */
  load(link: string): void;
  /** Reports activity of the host's user at intervals; returns the function that stops it. */
  shareActivity(): () => void;
  close(): void;
}

export interface ReportOptions {
  /** The origin of the reporting app, such as "https://reports.example". */
  origin: string;
  /** The window of the host; tests pass another one. */
  window?: Window;
}

/** The permissions of the frame, for its `allow` attribute (interface document, Actions). */
export const PERMISSIONS = "microphone; screen-wake-lock; clipboard-read; clipboard-write; hid";

/** The minimum interval between activity reports. */
export const ACTIVITY_EVERY_MS = 5000;

const ACTIVITY_EVENTS = ["pointerdown", "pointermove", "keydown", "wheel", "touchstart"] as const;

/** Creates a frame with the required permissions; append it, then `connect` it. */
export function createReportFrame(document: Document, title: string): HTMLIFrameElement {
  const frame = document.createElement("iframe");
  frame.allow = PERMISSIONS;
  frame.title = title;
  return frame;
}

/** The properties of another site's window are not readable. */
function isFrame(target: HTMLIFrameElement | Window): target is HTMLIFrameElement {
  try {
    return "contentWindow" in target;
  } catch {
    return false;
  }
}

/** Connects to a report in a frame, or in a window that this page has opened. */
export function connect(
  target: HTMLIFrameElement | Window,
  { origin, window = globalThis.window }: ReportOptions,
): ReportConnection {
  const handlers = new Map<string, Set<(event: AnyReportEvent) => void>>();
  const framed = isFrame(target);
  const app = () => (framed ? target.contentWindow : target);

  function hear(message: MessageEvent<unknown>): void {
    if (message.origin !== origin || message.source !== app()) return;
    const event = message.data as AnyReportEvent | null;
    if (!event || typeof event !== "object" || typeof event.type !== "string") return;
    for (const kind of [event.type, "*"]) {
      for (const handler of [...(handlers.get(kind) ?? [])]) handler(event);
    }
  }

  function on(kind: string, handler: (event: never) => void): () => void {
    const set = handlers.get(kind) ?? new Set();
    handlers.set(kind, set.add(handler as (event: AnyReportEvent) => void));
    return () => set.delete(handler as (event: AnyReportEvent) => void);
  }

  function send(action: ActionName, parameters: object = {}): void {
    app()?.postMessage({ ...parameters, action }, origin);
  }

  function shareActivity(): () => void {
    let reportedAt = -ACTIVITY_EVERY_MS;
    const report = () => {
      const now = performance.now();
      if (now - reportedAt < ACTIVITY_EVERY_MS) return;
      reportedAt = now;
      send("user_activity");
    };
    for (const event of ACTIVITY_EVENTS)
      window.addEventListener(event, report, { passive: true, capture: true });
    return () => {
      for (const event of ACTIVITY_EVENTS)
        window.removeEventListener(event, report, { capture: true });
    };
  }

  window.addEventListener("message", hear);
  return {
    on: on as ReportConnection["on"],
    next: (kind) =>
      new Promise((resolve) => {
        const end = on(kind, (event) => {
          end();
          resolve(event);
        });
      }),
    send: (action, ...parameters) => send(action, parameters[0]),
    load(link) {
      if (framed) target.src = link;
      else target.location.href = link;
    },
    shareActivity,
    close: () => {
      handlers.clear();
      window.removeEventListener("message", hear);
    },
  };
}
