// Places what floats beside its anchor, within the window.

/** `over` covers the anchor: a field that opens. */
export type Placement = "below" | "below-end" | "above" | "right" | "left" | "over";

const GAP = 4;
const EDGE = 8;

export interface Box {
  top: number;
  left: number;
  right: number;
  bottom: number;
}

/** Returns where a float of a size goes: beside the anchor, on the other side if there is more room. */
export function placeOf(
  anchor: Box,
  size: { width: number; height: number },
  window: { width: number; height: number },
  placement: Placement,
): { top: number; left: number } {
  const clamp = (value: number, length: number, room: number) =>
    Math.max(EDGE, Math.min(value, room - length - EDGE));
  if (placement === "right" || placement === "left") {
    const [after, before] = [anchor.right + GAP, anchor.left - GAP - size.width];
    const fits = placement === "right" ? after + size.width + EDGE <= window.width : before >= EDGE;
    const left = (placement === "right") === fits ? after : before;
    return {
      left: clamp(left, size.width, window.width),
      top: clamp(anchor.top, size.height, window.height),
    };
  }
  if (placement === "over") {
    return {
      top: clamp(anchor.top, size.height, window.height),
      left: clamp(anchor.left, size.width, window.width),
    };
  }
  const [below, above] = [anchor.bottom + GAP, anchor.top - GAP - size.height];
  const roomBelow = window.height - anchor.bottom;
  const fitsBelow = roomBelow >= size.height + GAP + EDGE || roomBelow >= anchor.top;
  const fitsAbove = anchor.top >= size.height + GAP + EDGE || anchor.top > roomBelow;
  const isBelow = placement === "above" ? !fitsAbove : fitsBelow;
  const left = placement === "below-end" ? anchor.right - size.width : anchor.left;
  return {
    left: clamp(left, size.width, window.width),
    top: clamp(isBelow ? below : above, size.height, window.height),
  };
}

/** Moves an element beside its anchor; `matchWidth` makes it at least as wide. */
export function place(
  node: HTMLElement,
  anchor: Element,
  placement: Placement,
  matchWidth = false,
): void {
  const box = anchor.getBoundingClientRect();
  if (matchWidth) node.style.minWidth = `${box.width}px`;
  node.style.maxHeight = `${window.innerHeight - 2 * EDGE}px`;
  node.style.maxWidth = `${window.innerWidth - 2 * EDGE}px`;
  const at = placeOf(
    box,
    { width: node.offsetWidth, height: node.offsetHeight },
    { width: window.innerWidth, height: window.innerHeight },
    placement,
  );
  node.style.top = `${at.top}px`;
  node.style.left = `${at.left}px`;
}
