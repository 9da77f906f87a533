// What has to be done before another report takes this page's place: whoever holds something
// unfinished registers here; whoever wants to leave waits for all of them.

const duties = new Set<() => Promise<void>>();

/** Registers a duty; returns what takes it back. */
export function beforeLeaving(duty: () => Promise<void>): () => void {
  duties.add(duty);
  return () => duties.delete(duty);
}

/** Resolves when everything is saved; rejects when something cannot be. */
export async function readyToLeave(): Promise<void> {
  await Promise.all([...duties].map((duty) => duty()));
}
