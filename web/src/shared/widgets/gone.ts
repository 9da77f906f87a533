import { onDestroy } from "svelte";

/**
 * Returns what tells whether the component that is being made is gone: an answer that comes by then
 * closes nothing and leads nowhere, for what is open is another one's.
 */
export function whetherGone(): () => boolean {
  let gone = false;
  onDestroy(() => (gone = true));
  return () => gone;
}
