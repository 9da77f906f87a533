// Formats times to the second in the time zone of the browser.

const style = { dateStyle: "short", timeStyle: "medium" } as const;
const format = new Intl.DateTimeFormat("en-GB", style);
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Formats milliseconds since the epoch; null gives an empty text. */
export function formatTime(at: number | null): string {
  return at === null ? "" : format.format(at);
}

/** Formats a duration in its one or two largest units: 3 d 4 h, 12 min, 8 s. */
export function formatDuration(milliseconds: number): string {
  const left = Math.max(0, milliseconds);
  if (left >= DAY) return `${Math.floor(left / DAY)} d ${Math.floor((left % DAY) / HOUR)} h`;
  if (left >= HOUR) return `${Math.floor(left / HOUR)} h ${Math.floor((left % HOUR) / MINUTE)} min`;
  if (left >= MINUTE) return `${Math.floor(left / MINUTE)} min`;
  return `${Math.floor(left / SECOND)} s`;
}

/** Converts the value of a datetime-local field to milliseconds; an empty field gives null. */
export function parseTimeField(value: string): number | null {
  return value ? new Date(value).getTime() : null;
}
