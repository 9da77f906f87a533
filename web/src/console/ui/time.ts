// Times as people say them, in the zone of a site; and durations.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const formats = new Map<string, Intl.DateTimeFormat>();
function formatOf(zone: string, name: string, style: Intl.DateTimeFormatOptions) {
  const key = `${name} ${zone}`;
  let format = formats.get(key);
  if (!format) {
    try {
      format = new Intl.DateTimeFormat("en-GB", { ...style, timeZone: zone });
    } catch {
      format = new Intl.DateTimeFormat("en-GB", { ...style, timeZone: "UTC" });
    }
    formats.set(key, format);
  }
  return format;
}

type Parts = Readonly<Record<string, string>>;
function partsOf(at: number, zone: string): Parts {
  const format = formatOf(zone, "parts", {
    weekday: "short",
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    timeZoneName: "short",
  });
  return Object.fromEntries(format.formatToParts(at).map((part) => [part.type, part.value]));
}
const dayOf = (parts: Parts) => `${parts["year"]} ${parts["month"]} ${parts["day"]}`;
/** "Sept" is the only month of four letters. */
const month = (parts: Parts) => (parts["month"] ?? "").slice(0, 3);

/** The zone of this browser. */
export function browserZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

/** A time as it is said now: "12 s", "4 min", "3 h", "yesterday 19:31", "28 Nov 19:31". */
export function relativeTime(at: number, now: number, zone: string): string {
  const age = now - at;
  if (age < -5 * SECOND) return untilText(-age, at, now, zone);
  if (age < MINUTE) return `${Math.max(0, Math.floor(age / SECOND))} s`;
  if (age < HOUR) return `${Math.floor(age / MINUTE)} min`;
  const [then, today] = [partsOf(at, zone), partsOf(now, zone)];
  if (dayOf(then) === dayOf(today)) return `${Math.floor(age / HOUR)} h`;
  const clock = `${then["hour"]}:${then["minute"]}`;
  if (dayOf(then) === dayOf(partsOf(now - DAY, zone))) return `yesterday ${clock}`;
  const date = `${then["day"]} ${month(then)}`;
  return then["year"] === today["year"] ? `${date} ${clock}` : `${date} ${then["year"]}`;
}

function untilText(left: number, at: number, now: number, zone: string): string {
  if (left < MINUTE) return `in ${Math.ceil(left / SECOND)} s`;
  if (left < HOUR) return `in ${Math.floor(left / MINUTE)} min`;
  if (left < DAY) return `in ${Math.floor(left / HOUR)} h`;
  const [then, today] = [partsOf(at, zone), partsOf(now, zone)];
  const date = `${then["day"]} ${month(then)}`;
  return then["year"] === today["year"] ? date : `${date} ${then["year"]}`;
}

/** "28 Nov 19:31:28", with the year if it is not this one. */
export function exactTime(at: number, now: number, zone: string): string {
  const [then, today] = [partsOf(at, zone), partsOf(now, zone)];
  const year = then["year"] === today["year"] ? "" : ` ${then["year"]}`;
  return `${then["day"]} ${month(then)}${year} ${clockTime(at, zone)}`;
}

/** "19:31:28". */
export function clockTime(at: number, zone: string): string {
  const then = partsOf(at, zone);
  return `${then["hour"]}:${then["minute"]}:${then["second"]}`;
}

/** "Sat 28 Nov 2026 19:31:28.412 CET · 18:31:28.412 UTC": what hovering shows. */
export function fullTime(at: number, zone: string, place = ""): string {
  const then = partsOf(at, zone);
  const ms = String(((at % SECOND) + SECOND) % SECOND).padStart(3, "0");
  const date = `${then["weekday"]} ${then["day"]} ${month(then)} ${then["year"]}`;
  const name = then["timeZoneName"] ?? zone;
  const local = `${date} ${clockTime(at, zone)}.${ms} ${name}${place ? ` (${place})` : ""}`;
  return name === "UTC" ? local : `${local} · ${clockTime(at, "UTC")}.${ms} UTC`;
}

/** "8 ms", "2.4 s", "4 min 12 s", "3 h 2 min", "9 d 4 h"; without `precise` only the largest unit. */
export function durationText(ms: number, precise = true): string {
  const left = Math.max(0, ms);
  if (left < SECOND) return `${Math.round(left)} ms`;
  if (left < 10 * SECOND) return `${(Math.floor(left / 100) / 10).toFixed(1).replace(".0", "")} s`;
  if (left < MINUTE) return `${Math.floor(left / SECOND)} s`;
  const two = (first: number, unit: string, second: number, small: string) =>
    precise && second > 0 ? `${first} ${unit} ${second} ${small}` : `${first} ${unit}`;
  if (left < HOUR) {
    const minutes = Math.floor(left / MINUTE);
    return two(minutes, "min", minutes < 10 ? Math.floor((left % MINUTE) / SECOND) : 0, "s");
  }
  if (left < DAY) {
    return two(Math.floor(left / HOUR), "h", Math.floor((left % HOUR) / MINUTE), "min");
  }
  return two(Math.floor(left / DAY), "d", Math.floor((left % DAY) / HOUR), "h");
}
