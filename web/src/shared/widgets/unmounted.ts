import { onDestroy } from "svelte";

/**
 * Returns a function that tells whether the calling component was unmounted. A late response must
 * not close a dialog or change the page after that.
 */
export function trackUnmount(): () => boolean {
  let unmounted = false;
  onDestroy(() => (unmounted = true));
  return () => unmounted;
}
