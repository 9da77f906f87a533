// What can be done now: the actions of the page, for the palette, the keys and the list of keys.

import { untrack } from "svelte";

export interface Action {
  id: string;
  title: string;
  /** One letter such as "r", or "Shift+P". */
  keys?: string;
  /** The permission; without it the action is not offered. */
  needs?: string;
  when?: () => boolean;
  aliases?: readonly string[];
  run: () => unknown;
}

let offered = $state.raw<readonly (readonly Action[])[]>([]);

export const actions = {
  /** Every action that is offered, the latest first. */
  get all(): readonly Action[] {
    return offered.flat();
  },
  /** Offers actions until the returned function is called; call it in `$effect`. */
  offer(list: readonly Action[]): () => void {
    offered = [list, ...untrack(() => offered)];
    return () => (offered = untrack(() => offered).filter((one) => one !== list));
  },
};

/** How a key event is written: "r", "Shift+P", "[". */
export function keyOf(event: KeyboardEvent): string {
  const isLetter = /^[a-z]$/i.test(event.key);
  return event.shiftKey && isLetter ? `Shift+${event.key.toUpperCase()}` : event.key;
}
