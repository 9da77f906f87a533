// Dates as the language writes them.
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

const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];

/** How long ago (or until) a moment is, in its largest unit. */
export function formatRelative(at: number, now: number): string {
  const words = new Intl.RelativeTimeFormat(locale.current, { numeric: "auto", style: "short" });
  for (const [unit, length] of STEPS) {
    const count = Math.trunc((at - now) / length);
    if (count !== 0) return words.format(count, unit);
  }
  return words.format(0, "minute");
}
