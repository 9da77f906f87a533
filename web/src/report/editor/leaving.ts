// What has to be done before another report takes this page's place: whoever holds something
// unfinished registers here; whoever wants to leave waits for all of them.

type Duty = () => Promise<void>;

/** What is still being said or put in comes first; then everything is saved. */
const STAGES = ["finish", "save"] as const;
const duties = new Map<Duty, (typeof STAGES)[number]>();

/** Registers a duty; returns what takes it back. */
export function beforeLeaving(stage: (typeof STAGES)[number], duty: Duty): () => void {
  duties.set(duty, stage);
  return () => duties.delete(duty);
}

async function carryOut(stage: (typeof STAGES)[number]): Promise<void> {
  const now = [...duties].filter(([, each]) => each === stage);
  await Promise.all(now.map(([duty]) => duty()));
}

/** Resolves when nothing is still being put in: before a text is signed. */
export const finished = (): Promise<void> => carryOut("finish");

/** Resolves when everything is saved; rejects when something cannot be. */
export async function readyToLeave(): Promise<void> {
  for (const stage of STAGES) await carryOut(stage);
}

const holders = new Set<() => boolean>();

/** Registers who has text that would be lost with the page; returns what takes it back. */
export function holdsText(wouldLose: () => boolean): () => void {
  holders.add(wouldLose);
  return () => holders.delete(wouldLose);
}

/** Whether text would be lost with the page: it is not saved, and this computer keeps nothing. */
export const textWouldBeLost = (): boolean => [...holders].some((each) => each());
