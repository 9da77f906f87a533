// The times that a filter offers: as words in the address, so that a bookmark stays "today".

export const TIMES = ["1h", "24h", "7d", "today", "yesterday", "monday"] as const;
export type TimeWord = (typeof TIMES)[number];

export const isTimeWord = (value: string): value is TimeWord =>
  (TIMES as readonly string[]).includes(value);
