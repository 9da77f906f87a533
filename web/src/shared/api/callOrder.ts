// Controls the order and the duration of asynchronous calls.

/** Wraps a call so that calls run one at a time, in order. A failed call does not block the next. */
export function serialize<A extends unknown[], R>(
  call: (...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  let last: Promise<unknown> | null = null;
  return (...args) => {
    const previous = last;
    const current = previous ? previous.then(() => call(...args)) : call(...args);
    const settled = current
      .catch(() => undefined)
      .then(() => {
        if (last === settled) last = null;
      });
    last = settled;
    return current;
  };
}

/** Wraps a request so that one runs at a time; requests made during it share the next one. */
export function coalesce<R>(request: () => Promise<R>): () => Promise<R> {
  let running: Promise<R> | null = null;
  let next: Promise<R> | null = null;
  const start = () => {
    const current = request().finally(() => (running = null));
    next = null;
    return (running = current);
  };
  return () => {
    if (!running) return start();
    return (next ??= running.then(start, start));
  };
}

/** Resolves with the result, or with undefined after `ms` milliseconds. */
export function withTimeout<R>(ms: number, result: Promise<R>): Promise<R | undefined> {
  return Promise.race([result, new Promise<undefined>((resolve) => setTimeout(resolve, ms))]);
}
