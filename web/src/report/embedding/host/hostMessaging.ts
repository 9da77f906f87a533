// Messaging with the host: the parent of a frame, the opener of a tab, or WebView2.
//
// Sends only to allowed origins, never to "*", and ignores all others. Queues actions before
// report_ready, which is the first event of a study. Handlers implement the actions.
import {
  type ActionName,
  type EventName,
  type ExtraName,
  SEQUENTIAL_ACTIONS,
  type OrderIdentity,
  isAction,
  missingParameter,
} from "../contract";
import { STATE_EVENTS, type AnyReportEvent, type PageState } from "../../../host-sdk";
import { actionProblem } from "./actionProblem";
import { type Channel, openChannel } from "./hostChannel";

export interface ReportIdentity {
  reportId: string;
  /** The anchor first, then linked orders. */
  clinicalInfo: readonly OrderIdentity[];
}

export type ActionHandler = (payload: unknown) => void | Promise<void>;

export interface HostBus {
  emit(event: string, payload: unknown): void;
  /** Registers the handler of an action; a rejection is reported to the host. */
  on(action: string, handler: ActionHandler): () => void;
  readonly embedded: boolean;
  /** Sets the report of subsequent events. */
  identify(report: ReportIdentity): void;
  /** Subscribes to emitted events. */
  watch(listener: (event: string, payload: unknown) => void): () => void;
  close(): void;
}

export interface BusOptions {
  origins: readonly string[];
  window: Window;
  /** Without configured origins the page that frames an administrator's link is its host. */
  anyHost?: boolean;
  /** WebView2 gets objects instead of serialized strings. */
  objects?: boolean;
  /** Whether a prompt replaces the report: actions are then refused instead of queued. */
  promptOpen?: () => boolean;
  now?: () => Date;
}

/** The maximum number of actions queued until report_ready. */
export const MAX_WAITING = 20;

/** The maximum length of the name of an unknown action in the answer. */
const MAX_NAME = 100;

const BEFORE_READY: readonly string[] = [
  "report_transfer_requested",
  "report_transfer_cancelled",
  "report_transfer_proceeded",
  "report_discarded",
  "session_expired",
  "action_failed",
] satisfies (ExtraName | EventName)[];

interface Waiting {
  action: string;
  message: Record<string, unknown>;
}

/** Opens the connection. `embedded` is false without a permitted host. */
export function createHostBus(options: BusOptions): HostBus {
  const now = options.now ?? (() => new Date());
  const channel: Channel = openChannel(options);
  const handlers = new Map<string, ActionHandler>();
  const watchers = new Set<(event: string, payload: unknown) => void>();
  let held: [string, unknown][] = [];
  let waiting: Waiting[] = [];
  let ready = false;
  let turn: Promise<void> = Promise.resolve();
  let report: ReportIdentity = { reportId: "", clinicalInfo: [] };
  const page = messageId();
  let last: AnyReportEvent | null = null;

  function send(event: string, payload: unknown): void {
    const [anchor, ...linked] = report.clinicalInfo;
    const message = {
      reportId: report.reportId,
      clinicalInfo: identityOf(anchor),
      linkedClinicalInfo: linked.map(identityOf),
      ...(payload as object),
      type: event,
      messageId: messageId(),
      timestamp: now().toISOString(),
      protocolVersion: 1,
    } as AnyReportEvent;
    channel.send(message);
    if (STATE_EVENTS.includes(message.type)) last = message;
    if (message.type === "report_status_changed" && last?.type === "report_ready") {
      last = { ...last, status: message.status };
    }
    for (const watcher of watchers) watcher(event, payload);
  }

  function emit(event: string, payload: unknown): void {
    if (!ready && event !== "report_ready" && !BEFORE_READY.includes(event)) {
      held.push([event, payload]);
      return;
    }
    send(event, payload);
    if (event === "report_ready" && !ready) begin();
  }

  function begin(): void {
    ready = true;
    const events = held;
    const actions = waiting;
    [held, waiting] = [[], []];
    for (const [event, payload] of events) send(event, payload);
    for (const action of actions) dispatch(action.action, action.message);
  }

  function receive(message: unknown, answer?: MessagePort): void {
    const received = readMessage(message);
    const action = received?.["action"];
    if (!received || typeof action !== "string") return;
    if (action === "get_state" && answer) {
      return answer.postMessage({ page, last } satisfies PageState);
    }
    if (action !== "user_activity" && options.promptOpen?.()) {
      fail(action, isAction(action) ? "not_open" : "not_available");
    } else if (ready || action === "user_activity") dispatch(action, received);
    else if (waiting.length < MAX_WAITING) waiting.push({ action, message: received });
  }

  function dispatch(action: string, message: Record<string, unknown>): void {
    if (!isAction(action)) fail(action, "not_available");
    else if (SEQUENTIAL_ACTIONS.has(action)) turn = turn.then(() => handle(action, message));
    else void handle(action, message);
  }

  async function handle(action: ActionName, message: Record<string, unknown>): Promise<void> {
    const missing = missingParameter(action, message);
    if (missing) return fail(action, "missing_parameter", { parameter: missing });
    const handler = handlers.get(action);
    if (!handler) return fail(action, "not_available");
    try {
      await handler(message);
    } catch (error) {
      const { code, detail } = error as { code?: unknown; detail?: unknown };
      const reason = typeof detail === "string" ? { detail } : {};
      fail(action, typeof code === "string" && code ? code : "failed", reason);
    }
  }

  function fail(
    action: string,
    code: string,
    { detail = "", parameter }: { detail?: string; parameter?: string } = {},
  ): void {
    emit("action_failed", {
      action: action.slice(0, MAX_NAME),
      code,
      message: detail || actionProblem(code, parameter),
      ...(parameter ? { parameter } : {}),
    });
  }

  const unsubscribe = channel.listen(receive);
  return {
    embedded: channel.open,
    emit,
    on(action, handler) {
      if (!isAction(action)) throw new Error(`no such action: ${action}`);
      if (handlers.has(action)) throw new Error(`${action} has a handler already`);
      handlers.set(action, handler);
      return () => void (handlers.get(action) === handler && handlers.delete(action));
    },
    identify: (next) => void (report = next),
    watch(listener) {
      watchers.add(listener);
      return () => watchers.delete(listener);
    },
    close: unsubscribe,
  };
}

function identityOf(order: OrderIdentity | undefined): OrderIdentity {
  const { SiteID = "", PatientMRN = "", Accession = "" } = order ?? {};
  return { SiteID, PatientMRN, Accession };
}

/** Reads an action: an object, or the JSON of one (WebView2 sends either). */
function readMessage(message: unknown): Record<string, unknown> | null {
  let value = message;
  if (typeof value === "string") {
    try {
      value = JSON.parse(value);
    } catch {
      return null;
    }
  }
  return value !== null && typeof value === "object" ? (value as Record<string, unknown>) : null;
}

/** Makes an id without crypto.randomUUID, which plain HTTP hosts do not have. */
function messageId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
