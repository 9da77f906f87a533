// Times as operators compare them: to the second, in the browser's zone.

const style = { dateStyle: "short", timeStyle: "medium" } as const;
const format = new Intl.DateTimeFormat("en-GB", style);
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Writes milliseconds since the epoch; nothing where there is none. */
export function moment(at: number | null): string {
  return at === null ? "" : format.format(at);
}

/** Writes how long something lasts, by its two greatest units: 3 d 4 h, 12 min, 8 s. */
export function lasted(milliseconds: number): string {
  const left = Math.max(0, milliseconds);
  if (left >= DAY) return `${Math.floor(left / DAY)} d ${Math.floor((left % DAY) / HOUR)} h`;
  if (left >= HOUR) return `${Math.floor(left / HOUR)} h ${Math.floor((left % HOUR) / MINUTE)} min`;
  if (left >= MINUTE) return `${Math.floor(left / MINUTE)} min`;
  return `${Math.floor(left / SECOND)} s`;
}

/** Reads what a date-time field holds as milliseconds; null where it is empty. */
export function fromField(value: string): number | null {
  return value ? new Date(value).getTime() : null;
}
