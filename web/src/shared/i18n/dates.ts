// Formats dates and times in the current language.
import { locale } from "./catalogue.svelte";

/** Milliseconds since the epoch as a date and a time of day. */
export function formatDateTime(at: number): string {
  const style = { dateStyle: "medium", timeStyle: "short" } as const;
  return new Intl.DateTimeFormat(locale.current, style).format(at);
}

/** Milliseconds since the epoch as a date. */
export function formatDate(at: number): string {
  return new Intl.DateTimeFormat(locale.current, { dateStyle: "medium" }).format(at);
}

/** Milliseconds since the epoch as a time of day. */
export function formatTime(at: number): string {
  return new Intl.DateTimeFormat(locale.current, { timeStyle: "short" }).format(at);
}

/** Formats a duration in its two largest units: days, hours, minutes. */
export function formatDuration(ms: number, language = locale.current): string {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  const parts: [number, Intl.NumberFormatOptions["unit"]][] = [
    [Math.floor(minutes / 1440), "day"],
    [Math.floor(minutes / 60) % 24, "hour"],
    [minutes % 60, "minute"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  const shown = first < 0 ? parts.slice(2) : parts.slice(first, first + 2);
  return shown
    .filter(([count], index) => count > 0 || index === 0)
    .map(([count, unit]) =>
      new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "narrow" }).format(count),
    )
    .join(" ");
}

/** A number of seconds as minutes and seconds (`4:05`), from one hour on with hours. */
export function formatCountdown(seconds: number): string {
  const two = (count: number) => String(Math.floor(count)).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${two(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];

/** Formats a time relative to now in its largest unit. */
export function formatRelative(at: number, now: number): string {
  const format = new Intl.RelativeTimeFormat(locale.current, { numeric: "auto", style: "short" });
  for (const [unit, length] of STEPS) {
    const count = Math.trunc((at - now) / length);
    if (count !== 0) return format.format(count, unit);
  }
  return format.format(0, "minute");
}

/** Formats a date of HL7, DICOM or ISO 8601; other text is unchanged. */
export function formatTagDate(text: string | undefined, language = locale.current): string {
  const found = /^(\d{4})-?(\d{2})-?(\d{2})(?:[T ]?(\d{2}):?(\d{2}))?/.exec(text ?? "");
  if (!found) return text ?? "";
  const [, year, month, day] = found;
  const date = new Date(Number(year), Number(month) - 1, Number(day));
  if (date.getMonth() !== Number(month) - 1) return text ?? "";
  return new Intl.DateTimeFormat(language, { dateStyle: "medium" }).format(date);
}

const AGES = { Y: "year", M: "month", W: "week", D: "day" } as const;

/** The units of ages where CLDR's short forms are not those of the country's clinics. */
const AGE_UNITS: Readonly<Record<string, readonly [string, string, string, string]>> = {
  "ja-JP": ["歳", "か月", "週", "日"],
  "ko-KR": ["세", "개월", "주", "일"],
  "zh-CN": ["岁", "个月", "周", "天"],
  "zh-Hant": ["歲", "個月", "週", "天"],
  "de-DE": ["\u00a0J.", "\u00a0Mon.", "\u00a0Wo.", "\u00a0T."],
};

/** Formats a DICOM age (PS3.5 6.2, AS: `035Y`); other text is unchanged. */
export function formatAge(text: string | undefined, language = locale.current): string {
  const [, count, unit] = /^(\d{1,3})([YMWD])$/.exec(text ?? "") ?? [];
  if (!unit) return text ?? "";
  const own = AGE_UNITS[language]?.["YMWD".indexOf(unit)];
  if (own) return `${Number(count)}${own}`;
  const unitDisplay = language.startsWith("en") ? "narrow" : "short";
  const style = { style: "unit", unit: AGES[unit as keyof typeof AGES], unitDisplay };
  return new Intl.NumberFormat(language, style as Intl.NumberFormatOptions).format(Number(count));
}

const DAY_MS = 86_400_000;
/** DICOM's units: weeks up to three months, months up to two years. */
const UNTIL = { days: 28, weeks: 92 };

/**
 * Returns the age on a day in the DICOM format, from the date of birth (HL7, DICOM or ISO 8601 dates);
 * empty if a date is incomplete or invalid, or if the dates are in the wrong order.
 */
export function ageBetween(birth: string | undefined, day: string | Date | undefined): string {
  const born = dayOf(birth);
  const on = day instanceof Date ? day : dayOf(day);
  if (!born || !on || on < born) return "";
  const before = on.getMonth() * 100 + on.getDate() < born.getMonth() * 100 + born.getDate();
  const years = on.getFullYear() - born.getFullYear() - (before ? 1 : 0);
  if (years > 130) return "";
  const age = (count: number, unit: string) => String(count).padStart(3, "0") + unit;
  if (years >= 2) return age(years, "Y");
  const days = Math.round((on.getTime() - born.getTime()) / DAY_MS);
  if (days < UNTIL.days) return age(Math.max(0, days), "D");
  if (days < UNTIL.weeks) return age(Math.floor(days / 7), "W");
  const since = (on.getFullYear() - born.getFullYear()) * 12 + on.getMonth() - born.getMonth();
  return age(since - (on.getDate() < born.getDate() ? 1 : 0), "M");
}

function dayOf(text: string | undefined): Date | null {
  const [, year, month, day] = /^(\d{4})-?(\d{2})-?(\d{2})/.exec(text ?? "") ?? [];
  if (!day) return null;
  const found = new Date(Number(year), Number(month) - 1, Number(day));
  return found.getMonth() === Number(month) - 1 ? found : null;
}
