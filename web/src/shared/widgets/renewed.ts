// What an answer does to the form it answers: people type on while it is on its way.

/**
 * Gives fields their next values, except those that no longer say what they said `before`: they
 * were typed in since, and stay.
 */
export function renew<F extends object>(form: F, before: F, next: Partial<F>): void {
  for (const field of Object.keys(next) as (keyof F)[]) {
    if (form[field] === before[field]) form[field] = next[field] as F[typeof field];
  }
}

/** Takes a form as it is sent; what is returned empties it of that, once it has arrived. */
export function sent<F extends object>(form: F, empty: Partial<F>): () => void {
  const before = { ...form };
  return () => renew(form, before, empty);
}
