// The times of filters: as words in the address, so that a bookmark stays "today"; as local times of a
// zone; or as milliseconds since the epoch.

export const TIME_WORDS = ["1h", "24h", "7d", "today", "yesterday", "monday"] as const;
export type TimeWord = (typeof TIME_WORDS)[number];

export const isTimeWord = (value: string): value is TimeWord =>
  (TIME_WORDS as readonly string[]).includes(value);

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const SPANS: Readonly<Record<string, number>> = { "1h": HOUR, "24h": DAY, "7d": 7 * DAY };
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) {
    const style: Intl.DateTimeFormatOptions = {
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
    };
    format = new Intl.DateTimeFormat("en-CA", { ...style, timeZone: zone });
    formats.set(zone, format);
  }
  return format;
}

/** What a clock of the zone shows at a moment, as if it were UTC. */
function wallAt(at: number, zone: string): number {
  const parts = Object.fromEntries(
    formatOf(zone)
      .formatToParts(at)
      .map((part) => [part.type, part.value]),
  );
  const { year, month, day, hour, minute, second } = parts;
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
}

/** The moment at which a clock of the zone shows a time; in the hour that is left out, the one after. */
function momentAt(wall: number, zone: string): number {
  const near = wall - (wallAt(wall, zone) - wall);
  return wall - (wallAt(near, zone) - near);
}

const startOfDay = (at: number, zone: string, daysBack: number) => {
  const wall = wallAt(at, zone);
  return momentAt(wall - (((wall % DAY) + DAY) % DAY) - daysBack * DAY, zone);
};

/** Returns the moment (ms) of a word, of a local time such as "2026-11-28T08:00", or of a number. */
export function momentOf(value: string, zone: string, now: number): number {
  const span = SPANS[value];
  if (span !== undefined) return now - span;
  if (value === "today") return startOfDay(now, zone, 0);
  if (value === "yesterday") return startOfDay(now, zone, 1);
  if (value === "monday") {
    const weekday = new Date(wallAt(now, zone)).getUTCDay();
    return startOfDay(now, zone, (weekday + 6) % 7);
  }
  if (/^\d+$/.test(value)) return Number(value);
  const wall = Date.parse(`${value.slice(0, 16)}:00Z`);
  return Number.isNaN(wall) ? 0 : momentAt(wall, zone);
}

/** The local time of a moment as the field `datetime-local` takes it. */
export const localTime = (at: number, zone: string): string =>
  new Date(wallAt(at, zone)).toISOString().slice(0, 16);
