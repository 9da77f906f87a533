// Times as operators compare them: to the second, in the browser's zone.

const style = { dateStyle: "short", timeStyle: "medium" } as const;
const format = new Intl.DateTimeFormat("en-GB", style);

/** Writes milliseconds since the epoch; nothing where there is none. */
export function moment(at: number | null): string {
  return at === null ? "" : format.format(at);
}
