// Whether somebody is signed in still, and who wants to know when they are again.

let over = $state(false);
let waiting: readonly (() => void)[] = [];

export const session = {
  get over(): boolean {
    return over;
  },
  ended(): void {
    over = true;
  },
  back(): void {
    over = false;
    for (const each of waiting) each();
  },
  /** Calls when somebody is signed in again; gives what ends that. */
  resumed(listener: () => void): () => void {
    waiting = [...waiting, listener];
    return () => (waiting = waiting.filter((each) => each !== listener));
  },
};
