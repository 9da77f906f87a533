// Whether the session of the user has ended, and who needs to know when the user signs in again.

let ended = $state(false);
let listeners: readonly (() => void)[] = [];

export const session = {
  get ended(): boolean {
    return ended;
  },
  end(): void {
    ended = true;
  },
  resume(): void {
    ended = false;
    for (const listener of listeners) listener();
  },
  /** Calls the listener at each new sign-in; returns the function that unsubscribes it. */
  onResume(listener: () => void): () => void {
    listeners = [...listeners, listener];
    return () => (listeners = listeners.filter((other) => other !== listener));
  },
};
