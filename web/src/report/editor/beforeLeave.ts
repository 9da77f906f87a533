// Work to finish before another report replaces this page. A part with unfinished work
// registers here; leaving waits for all parts.

type Duty = () => Promise<void>;

/** First finish dictation and insertions, then save. */
const STAGES = ["finish", "save"] as const;
const duties = new Map<Duty, (typeof STAGES)[number]>();

/** Registers work to finish; returns the function that unregisters it. */
export function beforeLeaving(stage: (typeof STAGES)[number], duty: Duty): () => void {
  duties.set(duty, stage);
  return () => duties.delete(duty);
}

async function carryOut(stage: (typeof STAGES)[number]): Promise<void> {
  const now = [...duties].filter(([, due]) => due === stage);
  await Promise.all(now.map(([duty]) => duty()));
}

/** Resolves when no insertion is pending; call it before signing. */
export const finished = (): Promise<void> => carryOut("finish");

/** Resolves when everything is saved; rejects if saving fails. */
export async function readyToLeave(): Promise<void> {
  for (const stage of STAGES) await carryOut(stage);
}

const holders = new Set<() => boolean>();

/** Registers a check for text that would be lost with the page; returns the unregister function. */
export function holdsText(wouldLose: () => boolean): () => void {
  holders.add(wouldLose);
  return () => holders.delete(wouldLose);
}

/** Whether closing the page would lose text: it is unsaved, and the browser cannot keep it. */
export const textWouldBeLost = (): boolean => [...holders].some((holder) => holder());
