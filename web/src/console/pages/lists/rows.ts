// What rows of messages and deliveries have in common.

interface QueueRow {
  state: string;
  attempts: number;
}
/** A row that waits after a failure is retrying. */
export const shownState = ({ state, attempts }: QueueRow): string =>
  state === "queued" && attempts > 0 ? "retrying" : state;

export const isUnfinished = ({ state }: QueueRow): boolean =>
  state === "queued" || state === "claimed";
