// The live stream from the service: changes of the report, presence of others, launches to
// follow, the end of the session. It uses fetch, because EventSource cannot send the bearer token.
//
// It reconnects after every interruption and requests the missed events.
import { ApiProblem, type Api } from "../../shared/api/client";
import { createParser } from "../../shared/live/sse";

export interface LiveStream {
  /**
   * Kinds: `change` (LiveChange), `presence` (Presence), `follow` (FollowRequest), `handover` (save
   * and confirm: another window takes over writing), `ended` ({reason}), and `connection` ({online}).
   */
  on(kind: string, handler: (data: unknown) => void): () => void;
  close(): void;
}

/** One change of the report by any user; `own`: made by this page. */
export interface LiveChange {
  cursor: number;
  event: string;
  at: string;
  own: boolean;
  /** The report does not exist any more. */
  gone: boolean;
  status: string;
  record: {
    reportId: string;
    clinicalInfo: { SiteID: string; PatientMRN: string; Accession: string }[];
  };
  content?: string;
  reportContent?: string;
  html_content?: string;
  signedAt?: string;
  mine?: boolean;
  newOwnerName?: string;
}

export interface Presence {
  others: { name: string; sameUser: boolean; writing: boolean }[];
}

export interface FollowRequest {
  sequence: number;
  accession: string;
}

export interface StreamOptions {
  /** The cursor that the page's state includes; null: from now on. */
  after?: number | null;
  /** The connection counts as dead after this silence; the server sends at least every 10 s. */
  silenceMs?: number;
  pauseMs?: (attempt: number) => number;
}

const HOME = "/reporting/api/session/";
const STALLS_BEFORE_POLLING = 2;
const POLL_MS = 3000;

export function createLiveStream(api: Api, options: StreamOptions = {}): LiveStream {
  const { silenceMs = 25_000, pauseMs = backoff } = options;
  const handlers = new Map<string, Set<(data: unknown) => void>>();
  const closing = new AbortController();
  let cursor = options.after === undefined || options.after === null ? "" : String(options.after);
  let online = true;
  let wake: (() => void) | null = null;

  function notify(kind: string, data: unknown): void {
    for (const handler of [...(handlers.get(kind) ?? [])]) handler(data);
  }

  function setOnline(next: boolean): void {
    if (next === online) return;
    online = next;
    notify("connection", { online });
  }

  function receive(kind: string, text: string, id: string): void {
    if (id) cursor = id;
    const data: unknown = JSON.parse(text);
    notify(kind, data);
    if (kind === "ended") closing.abort();
  }

  /** Reads one connection; resolves with whether anything was received. */
  async function listen(once: boolean): Promise<boolean> {
    const silence = new AbortController();
    const stop = () => silence.abort();
    let timer = setTimeout(stop, silenceMs);
    closing.signal.addEventListener("abort", stop);
    let received = false;
    try {
      const headers: Record<string, string> = cursor ? { "Last-Event-ID": cursor } : {};
      const path = `${HOME}events${once ? "?once=true" : ""}`;
      const response = await api.raw(path, { headers, signal: silence.signal });
      if (response.status === 401) {
        receive("ended", '{"reason":"ended"}', "");
        return true;
      }
      if (!response.ok || !response.body) throw new ApiProblem(response.status, "no_stream", "");
      const parse = createParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return received;
        received = true;
        setOnline(true);
        clearTimeout(timer);
        timer = setTimeout(stop, silenceMs);
        for (const event of parse(value)) receive(event.kind, event.data, event.id);
      }
    } catch (error) {
      if (error instanceof ApiProblem) setOnline(false);
      return received;
    } finally {
      clearTimeout(timer);
      closing.signal.removeEventListener("abort", stop);
    }
  }

  const sleep = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function run(): Promise<void> {
    let [failures, stalls] = [0, 0];
    while (!closing.signal.aborted) {
      const polling = stalls >= STALLS_BEFORE_POLLING;
      const began = performance.now();
      const received = await listen(polling);
      failures = received ? 0 : failures + 1;
      // A buffering proxy delivers nothing until the stream ends: fall back to repeated requests.
      if (!received && performance.now() - began >= silenceMs) stalls += 1;
      if (!closing.signal.aborted) await sleep(polling && received ? POLL_MS : pauseMs(failures));
    }
  }

  const reconnect = () => wake?.();
  globalThis.addEventListener("online", reconnect);
  closing.signal.addEventListener("abort", () => {
    globalThis.removeEventListener("online", reconnect);
    reconnect();
  });
  void run();
  return {
    on(kind, handler) {
      const set = handlers.get(kind) ?? new Set();
      handlers.set(kind, set.add(handler));
      return () => set.delete(handler);
    },
    close: () => closing.abort(),
  };
}

/** Exponential backoff with jitter, up to five seconds. */
function backoff(attempt: number): number {
  return Math.min(5000, 250 * 2 ** attempt) * (0.5 + Math.random() / 2);
}
