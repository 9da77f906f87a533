// Hints of the server about what has changed: one stream, open only while the tab is visible.
//
// After three failures the same snapshot is requested every five seconds: a proxy may buffer streams.
import { createParser } from "../../shared/live/sse";
import type { Heads } from "./api-types";
import { api, poll, session } from "./api";

const PATH = "/console/api/live";
const FAILURES_BEFORE_POLLING = 3;
const [POLL_MS, SILENCE_MS] = [5000, 40_000];

let heads = $state.raw<Heads | null>(null);
let failed = $state(false);
type Listener = (heads: Heads, before: Heads | null) => void;
const listeners = new Set<Listener>();

function take(next: Heads): void {
  const before = heads;
  [heads, failed] = [next, false];
  if (next.ended) session.end();
  for (const listener of [...listeners]) listener(next, before);
}

export const live = {
  /** The last snapshot; null before the first. */
  get heads(): Heads | null {
    return heads;
  },
  get failed(): boolean {
    return failed;
  },
  /** Calls the listener at each hint; returns the function that ends it, for `$effect`. */
  on(listener: Listener): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  /** Listens until the returned function is called. */
  start(): () => void {
    const closing = new AbortController();
    void run(closing.signal);
    return () => closing.abort();
  },
};

const visible = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
    check();
  });
const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

async function run(signal: AbortSignal): Promise<void> {
  let failures = 0;
  let mode: "stream" | "poll" = "stream";
  while (!signal.aborted) {
    await visible(signal);
    if (signal.aborted) return;
    if (session.ended) {
      await pause(POLL_MS, signal);
      continue;
    }
    try {
      if (mode === "stream") {
        failures = (await stream(signal)) === "heard" ? 0 : failures + 1;
      } else {
        take(await poll<Heads>(`${PATH}?once=1`, signal));
        await pause(POLL_MS, signal);
        continue;
      }
    } catch {
      failures += 1;
      failed = failures > 1;
    }
    if (mode === "stream" && failures >= FAILURES_BEFORE_POLLING) mode = "poll";
    await pause(Math.min(POLL_MS, 250 * 2 ** failures), signal);
  }
}

/** Reads one connection, which ends when the tab is hidden. */
async function stream(signal: AbortSignal): Promise<"heard" | "silent"> {
  const own = new AbortController();
  const stop = () => own.abort();
  const hidden = () => {
    if (document.hidden) stop();
  };
  let timer = setTimeout(stop, SILENCE_MS);
  signal.addEventListener("abort", stop);
  document.addEventListener("visibilitychange", hidden);
  let heard = false;
  try {
    const response = await api.raw(PATH, {
      headers: { "X-Unattended": "1", Accept: "text/event-stream" },
      signal: own.signal,
    });
    if (!response.ok || !response.body) throw new Error(String(response.status));
    const parse = createParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return heard ? "heard" : "silent";
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
      for (const event of parse(value)) {
        heard = true;
        if (event.kind === "heads") take(JSON.parse(event.data) as Heads);
      }
    }
  } catch (error) {
    if (own.signal.aborted) return heard ? "heard" : "silent";
    throw error;
  } finally {
    stop(); // an answer that is not read would stay open
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    document.removeEventListener("visibilitychange", hidden);
  }
}
