// The host's side of an embedded report: receive events, send actions, pre-warm and open it.
//
// One module without dependencies. It accepts messages only from the given frame and origin, and sends
// only to that origin (interface reference, Authentication 9).
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
  /**
   * Resolves with the next event of a kind; with a `report_ready` that the page sent before this page
   * listened, if nobody has got it yet. Rejects with a `ConnectionProblem`: `no_page` if no page of
   * the app answers, `timeout` after `timeout` milliseconds (by default it waits without limit while
   * the page of the app is there).
   */
  next<E extends EventName | ExtraName>(event: E, options?: NextOptions): Promise<ReportEvent<E>>;
  /** Sends an action; the app queues a few until report_ready. */
  send<A extends ActionName>(action: A, ...parameters: Parameters<A>): void;
  /**
   * Loads a link into the frame: a session link to pre-warm it, a report link to open a study.
   *
   * Resolves when the page of the app is there; rejects with `no_page` if none answers.
   */
  load(link: string): Promise<void>;
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

export interface NextOptions {
  /** Milliseconds after which `next` rejects. */
  timeout?: number;
}

/** Why a promise of the connection was rejected. */
export class ConnectionProblem extends Error {
  readonly code: "no_page" | "timeout";

  constructor(code: "no_page" | "timeout", message: string) {
    super(message);
    this.name = "ConnectionProblem";
    this.code = code;
  }
}

/** After so many milliseconds without an answer there is no page of the app. */
export const NO_PAGE_AFTER_MS = 8000;

/** The events after which a report is in another state for its host; the page repeats the last one. */
export const STATE_EVENTS: readonly (EventName | ExtraName)[] = [
  "report_ready",
  "report_discarded",
  "report_transfer_cancelled",
  "report_transferred",
  "session_expired",
];

/** The answer of a page of the app to `get_state`, through the port of the request. */
export interface PageState {
  /** An id of the page; it changes when the page is loaded again. */
  page: string;
  /** The last state event that the page has sent, with the present status; null: none yet. */
  last: AnyReportEvent | null;
}

const NO_PAGE = `No page of the reporting app answered within ${NO_PAGE_AFTER_MS / 1000} s. \
Possible causes: the server cannot be reached; the link has expired; the browser blocked the frame \
because the site does not list this page as a host origin, or because this page may not reach the \
local network. Offer the report in a tab.`;

/** The pauses between two requests for the state, in milliseconds; the last one repeats. */
const ASK_AFTER_MS = [100, 200, 400, 800, 1600];

/** The permissions of the frame, for its `allow` attribute (interface reference, Actions). */
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
  type Handler = (event: AnyReportEvent) => void;
  const handlers = new Map<string, Set<Handler>>();
  const framed = isFrame(target);
  const app = () => (framed ? target.contentWindow : target);

  /** The last state event, for handlers that are added after it; `to`: who has got it. */
  let last: { event: AnyReportEvent; to: Set<string> } | null = null;
  let lastAt = "";
  /** The id of the event that an answer brought; the answer can overtake the event itself. */
  let repeated: string | null = null;
  let search: Search | null = null;
  let answered = "";
  const waiting = new Set<{ found?: () => void; failed: (problem: ConnectionProblem) => void }>();

  function hear(message: MessageEvent<unknown>): void {
    if (message.origin !== origin || message.source !== app()) return;
    const event = message.data as AnyReportEvent | null;
    if (!event || typeof event !== "object" || typeof event.type !== "string") return;
    if (event.type === "report_ready") found();
    if (event.messageId === repeated) return;
    deliver(event);
  }

  function deliver(event: AnyReportEvent): void {
    const state = STATE_EVENTS.includes(event.type);
    const to = new Set<string>();
    for (const kind of [event.type, "*"]) {
      for (const handler of [...(handlers.get(kind) ?? [])]) {
        to.add(kind);
        handler(event);
      }
    }
    if (!state) return;
    last = { event, to };
    lastAt = event.timestamp;
  }

  function on(kind: string, handler: (event: never) => void): () => void {
    const set = handlers.get(kind) ?? new Set<Handler>();
    const added = handler as Handler;
    handlers.set(kind, set.add(added));
    const missed = last;
    if (missed && (kind === "*" || kind === missed.event.type) && !missed.to.has(kind)) {
      queueMicrotask(() => {
        missed.to.add(kind); // all handlers that were added together get it
        if (set.has(added)) added(missed.event);
      });
    }
    return () => set.delete(added);
  }

  function post(message: object, ports: MessagePort[] = []): void {
    const page = addressed(app(), origin);
    if (ports.length) page?.postMessage(message, origin, ports);
    else page?.postMessage(message, origin);
  }

  /** Asks until a page of the app answers; `link` replaces the page that answered before. */
  function lookForPage(link = ""): void {
    const old = link ? answered : "";
    search?.end();
    search = startSearch(
      (answer) => post({ action: "get_state" }, [answer]),
      (state) => {
        if (state.page === old) return false;
        answered = state.page;
        found();
        if (state.last && state.last.timestamp > lastAt) {
          repeated = state.last.messageId;
          deliver(state.last);
        }
        return true;
      },
      () => {
        // A page of the host, until it loads a link: nobody is expected to answer.
        if (framed && !link && showsHost(target, origin)) return;
        const problem = new ConnectionProblem("no_page", NO_PAGE);
        for (const call of [...waiting]) call.failed(problem);
      },
    );
  }

  function found(): void {
    if (search) search.outcome = "found";
    for (const call of [...waiting]) call.found?.();
  }

  function next(kind: string, { timeout }: NextOptions = {}): Promise<never> {
    const promise = new Promise<never>((resolve, reject) => {
      const waiter = { failed: (problem: ConnectionProblem) => settle(() => reject(problem)) };
      let timer: ReturnType<typeof setTimeout> | undefined;
      const settle = (finish: () => void) => {
        end();
        waiting.delete(waiter);
        clearTimeout(timer);
        finish();
      };
      const end = on(kind, (event) => settle(() => resolve(event)));
      waiting.add(waiter);
      if (timeout !== undefined) {
        const late = () =>
          waiter.failed(new ConnectionProblem("timeout", `No ${kind} within ${timeout} ms.`));
        timer = setTimeout(late, timeout);
      }
    });
    if (search?.outcome === "failed") lookForPage();
    return handled(promise);
  }

  function load(link: string): Promise<void> {
    last = null;
    const promise = new Promise<void>((resolve, reject) => {
      const waiter = {
        found: () => {
          waiting.delete(waiter);
          resolve();
        },
        failed: (problem: ConnectionProblem) => {
          waiting.delete(waiter);
          reject(problem);
        },
      };
      waiting.add(waiter);
    });
    if (framed) target.src = link;
    else target.location.href = link;
    lookForPage(link);
    return handled(promise);
  }

  function shareActivity(): () => void {
    let reportedAt = -ACTIVITY_EVERY_MS;
    const report = () => {
      const now = performance.now();
      if (now - reportedAt < ACTIVITY_EVERY_MS) return;
      reportedAt = now;
      post({ action: "user_activity" });
    };
    for (const event of ACTIVITY_EVENTS)
      window.addEventListener(event, report, { passive: true, capture: true });
    return () => {
      for (const event of ACTIVITY_EVENTS)
        window.removeEventListener(event, report, { capture: true });
    };
  }

  /** The frame has loaded a page: this page's `load`, the user's reload, or a new `src`. */
  function reloaded(): void {
    if (framed && isBlank(target)) return;
    if (search?.outcome === "open") search.ask();
    else lookForPage();
  }

  window.addEventListener("message", hear);
  if (framed) target.addEventListener("load", reloaded);
  if (!framed || target.src) lookForPage();
  return {
    on: on as ReportConnection["on"],
    next: next as ReportConnection["next"],
    send: (action, ...parameters) => post({ ...parameters[0], action }),
    load,
    shareActivity,
    close: () => {
      search?.end();
      handlers.clear();
      waiting.clear();
      window.removeEventListener("message", hear);
      if (framed) target.removeEventListener("load", reloaded);
    },
  };
}

interface Search {
  outcome: "open" | "found" | "failed";
  ask(): void;
  end(): void;
}

/** Asks at intervals until `accept` takes an answer, `outcome` is set, or the time is over. */
function startSearch(
  ask: (answer: MessagePort) => void,
  accept: (state: PageState) => boolean,
  failed: () => void,
): Search {
  const ports: MessagePort[] = [];
  let asked = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const search: Search = { outcome: "open", ask: askOnce, end };
  const deadline = setTimeout(() => {
    if (search.outcome !== "open") return end();
    search.outcome = "failed";
    end();
    failed();
  }, NO_PAGE_AFTER_MS);

  function askOnce(): void {
    const { port1, port2 } = new MessageChannel();
    ports.push(port1);
    port1.onmessage = ({ data }: MessageEvent<PageState>) => accept(data) && end();
    ask(port2);
  }

  function askAgain(): void {
    askOnce();
    const pause = ASK_AFTER_MS[Math.min(asked++, ASK_AFTER_MS.length - 1)];
    timer = setTimeout(askAgain, pause);
  }

  function end(): void {
    clearTimeout(deadline);
    clearTimeout(timer);
    for (const port of ports) port.close();
  }

  askAgain();
  return search;
}

/** A host that does not handle a rejection gets no error of the page. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

function isBlank(frame: HTMLIFrameElement): boolean {
  try {
    return frame.contentWindow?.location.href === "about:blank";
  } catch {
    return false;
  }
}

function showsHost(frame: HTMLIFrameElement, origin: string): boolean {
  return addressed(frame.contentWindow, origin) === null && !isBlank(frame);
}

/** Returns the window, or null while it shows a page of the host: then there is nobody to hear. */
function addressed(page: Window | null, origin: string): Window | null {
  if (!page) return null;
  try {
    return page.location.origin === origin ? page : null;
  } catch {
    return page; // another site's page, whose address is not readable
  }
}
