// Repeats a request while a page is shown.

const EVERY_MS = 2000;

/**
 * Loads at once, and then every two seconds; returns the function that ends it, for `$effect`.
 *
 * The next request starts after the previous one has ended, so a slow service is not overloaded.
 */
export function repeat(load: () => Promise<void>): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let over = false;
  const next = async (): Promise<void> => {
    await load();
    if (!over) timer = setTimeout(() => void next(), EVERY_MS);
  };
  void next();
  return () => {
    over = true;
    if (timer) clearTimeout(timer);
  };
}
