// Loads again when the server hints at a change, at most every two seconds.
import { live } from "./live.svelte";

const LEAST_MS = 2000;

/** Calls `load` after hints until the returned function is called; use it in `$effect`. */
export function onHint(load: () => unknown, least = LEAST_MS): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = Date.now();
  const stop = live.on(() => {
    timer ??= setTimeout(
      () => {
        [timer, last] = [undefined, Date.now()];
        load();
      },
      Math.max(0, least - (Date.now() - last)),
    );
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}
