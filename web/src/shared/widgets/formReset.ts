// Updates a form after a response. The user may have changed fields while the request was running.

/** Sets new field values, except in fields that the user has changed since `before`. */
export function updateUnchanged<F extends object>(form: F, before: F, next: Partial<F>): void {
  for (const field of Object.keys(next) as (keyof F)[]) {
    if (form[field] === before[field]) form[field] = next[field] as F[typeof field];
  }
}

/** Call when a form is sent; the returned function clears the fields that are still unchanged. */
export function clearAfterSend<F extends object>(form: F, empty: Partial<F>): () => void {
  const before = { ...form };
  return () => updateUnchanged(form, before, empty);
}
