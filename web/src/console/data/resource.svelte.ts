// Data of a page by name: a known answer shows at once and is refreshed; a failed refresh keeps it.
import { onDestroy } from "svelte";
import { session } from "../session/session.svelte";
import { problemOf, type Problem } from "./api";

const KEPT = 60;
const RETRY_MS = 4000;
const cache = new Map<string, { value: unknown; at: number }>();

function remember(key: string, value: unknown, at: number): void {
  cache.delete(key);
  cache.set(key, { value, at });
  const oldest = cache.keys().next().value;
  if (cache.size > KEPT && oldest !== undefined) cache.delete(oldest);
}

/** Keeps a value that a list already has, so that the page of a row shows at once. */
export function seed(key: string, value: unknown): void {
  if (!cache.has(key)) remember(key, value, 0);
}

/** Forgets everything: another person may sign in. */
export function forget(): void {
  cache.clear();
}

export interface Resource<T> {
  /** The last answer; null before the first. */
  readonly value: T | null;
  /** The value was not refreshed since the last failure. */
  readonly stale: boolean;
  readonly problem: Problem | null;
  /** When the value was loaded; 0: it is a seed. */
  readonly at: number;
  readonly loading: boolean;
  reload(): Promise<void>;
}

/**
 * Loads data while a component lives; call it in its script.
 *
 * `poll` repeats that many milliseconds after each answer, while the tab is visible. After a failure
 * the request is repeated every four seconds.
 */
export function resource<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  options: { poll?: number } = {},
): Resource<T> {
  const known = cache.get(key);
  let value = $state.raw<T | null>((known?.value as T | undefined) ?? null);
  let at = $state(known?.at ?? 0);
  let problem = $state.raw<Problem | null>(null);
  let loading = $state(false);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running: AbortController | null = null;
  let over = false;

  async function run(): Promise<void> {
    clearTimeout(timer);
    running?.abort();
    const own = new AbortController();
    running = own;
    loading = true;
    try {
      const answer = await load(own.signal);
      if (own !== running || over) return;
      [value, at, problem] = [answer, Date.now(), null];
      remember(key, answer, at);
    } catch (error) {
      if (own !== running || over || own.signal.aborted) return;
      problem = problemOf(error);
    } finally {
      if (own === running) {
        loading = false;
        schedule();
      }
    }
  }
  function schedule(): void {
    if (over || session.ended) return;
    const again = problem?.kind === "unreachable" ? RETRY_MS : options.poll;
    if (again) timer = setTimeout(() => (document.hidden ? schedule() : void run()), again);
  }
  const resumed = session.onResume(() => void run());
  onDestroy(() => {
    over = true;
    running?.abort();
    clearTimeout(timer);
    resumed();
  });
  void run();

  return {
    get value() {
      return value;
    },
    get stale() {
      return problem !== null && value !== null;
    },
    get problem() {
      return problem;
    },
    get at() {
      return at;
    },
    get loading() {
      return loading;
    },
    reload: run,
  };
}
