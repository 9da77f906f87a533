// Numbers as a table shows them.

const grouped = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const groupedNumber = (value: number): string => grouped.format(value);
export const shortNumber = (value: number): string =>
  value < 10_000 ? grouped.format(value) : short.format(value);

/** "214", or "10,000+" if the count stopped there. */
export const countText = (count: { count: number; exact: boolean }): string =>
  `${grouped.format(count.count)}${count.exact ? "" : "+"}`;

/** A share in percent with at most one decimal: "0.1 %", "100 %". */
export function shareText(part: number, whole: number): string {
  if (whole === 0) return "–";
  const percent = (100 * part) / whole;
  const digits = percent > 0 && percent < 10 ? 1 : 0;
  return `${percent.toFixed(digits)} %`;
}

const UNITS = ["B", "kB", "MB", "GB"];
export function sizeText(bytes: number): string {
  let [size, unit] = [bytes, 0];
  while (size >= 1000 && unit < UNITS.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${size < 10 && unit > 0 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit] ?? ""}`;
}
