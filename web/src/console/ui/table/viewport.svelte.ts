// Virtual rows: which rows of a fixed height are drawn for a scroll position.

export interface Range {
  first: number;
  /** The row after the last one. */
  end: number;
}

const BESIDE = 8;

/** The rows to draw: those in sight and eight more at each side. */
export function visibleRange(
  top: number,
  height: number,
  rowHeight: number,
  count: number,
  beside = BESIDE,
): Range {
  if (count === 0 || rowHeight <= 0) return { first: 0, end: 0 };
  const first = Math.max(0, Math.floor(top / rowHeight) - beside);
  const end = Math.min(count, Math.ceil((top + height) / rowHeight) + beside);
  return { first: Math.min(first, Math.max(0, count - 1)), end };
}

/** The scroll position at which a row is wholly in sight, below a sticky header. */
export function scrollFor(index: number, top: number, height: number, rowHeight: number): number {
  const [start, end] = [index * rowHeight, (index + 1) * rowHeight];
  if (start < top) return start;
  if (end > top + height) return end - height;
  return top;
}

/** Less than one and a half screens are left: the next page should be loaded. */
export function isNearEnd(top: number, height: number, rowHeight: number, count: number): boolean {
  return count * rowHeight - (top + height) < 1.5 * height;
}

export class Viewport {
  top = $state(0);
  height = $state(0);
  rowHeight = $state(30);

  range(count: number): Range {
    return visibleRange(this.top, this.height, this.rowHeight, count);
  }
  /** Rows that a screen shows, for Page Up and Page Down. */
  get page(): number {
    return Math.max(1, Math.floor(this.height / this.rowHeight) - 1);
  }
}
