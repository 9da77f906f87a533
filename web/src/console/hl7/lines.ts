// The lines between the two panes of a message map: where each begins and ends, in sight or at an edge.

export interface Box {
  top: number;
  bottom: number;
  left: number;
  right: number;
}
/** Where one end of a line is: the middle of its row, or an edge of its pane if it is out of sight. */
export interface End {
  y: number;
  out: "" | "above" | "below";
}
export interface Line {
  key: string;
  from: End;
  to: End;
  isUsed: boolean;
  /** Named at an edge. */
  fromName: string;
  toName: string;
}

const MARGIN = 10;

/** `row`: null if the row is not drawn; then `isAbove` says on which side it would be. */
export function endOf(row: Box | null, pane: Box, origin: number, isAbove: boolean): End {
  const [top, bottom] = [pane.top + MARGIN, pane.bottom - MARGIN];
  const middle = row ? (row.top + row.bottom) / 2 : isAbove ? -Infinity : Infinity;
  if (middle < top) return { y: top - origin, out: "above" };
  if (middle > bottom) return { y: bottom - origin, out: "below" };
  return { y: middle - origin, out: "" };
}

/** A curve that leaves and arrives horizontally. */
export function curve(x1: number, y1: number, x2: number, y2: number): string {
  const bend = (x2 - x1) * 0.5;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
