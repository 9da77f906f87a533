// Calls whose order counts: each goes out when the one before it has been answered.

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
