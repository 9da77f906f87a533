// Calls whose order counts, and answers that are not waited for without end.

/** Returns the same call, made one at a time in the order it is asked for; a failure holds up none. */
export function inTurn<A extends unknown[], R>(
  call: (...given: A) => Promise<R>,
): (...given: A) => Promise<R> {
  let last: Promise<unknown> | null = null;
  return (...given) => {
    const before = last;
    const mine = before ? before.then(() => call(...given)) : call(...given);
    const over = mine
      .catch(() => undefined)
      .then(() => {
        if (last === over) last = null;
      });
    last = over;
    return mine;
  };
}

/** Returns the same question, asked once at a time: all who ask meanwhile share the next answer. */
export function together<R>(ask: () => Promise<R>): () => Promise<R> {
  let asked: Promise<R> | null = null;
  let next: Promise<R> | null = null;
  const begin = () => {
    const mine = ask().finally(() => (asked = null));
    next = null;
    return (asked = mine);
  };
  return () => {
    if (!asked) return begin();
    return (next ??= asked.then(begin, begin));
  };
}

/** Resolves with an answer, or after `ms` milliseconds without it. */
export function within<R>(ms: number, answer: Promise<R>): Promise<R | undefined> {
  return Promise.race([answer, new Promise<undefined>((resolve) => setTimeout(resolve, ms))]);
}
