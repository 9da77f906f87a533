// A tooltip for any control: `{@attach tooltip("Copy")}`. It is never the only carrier of a text.
import { place, type Placement } from "./float";

const AFTER_MS = 400;

let shown: { node: HTMLElement; anchor: HTMLElement } | null = null;
let counter = 0;

function hide(): void {
  if (!shown) return;
  shown.node.remove();
  if (shown.anchor.getAttribute("aria-describedby") === shown.node.id)
    shown.anchor.removeAttribute("aria-describedby");
  shown = null;
}

function show(anchor: HTMLElement, text: string, placement: Placement): void {
  hide();
  if (!anchor.isConnected) return;
  const node = document.createElement("div");
  node.id = `tooltip-${(counter += 1)}`;
  node.className = "tooltip";
  node.setAttribute("role", "tooltip");
  node.setAttribute("popover", "manual");
  node.textContent = text;
  // Beside its anchor, so that a dialog's focus trap and a region of the page contain it.
  (anchor.closest("[role=dialog], [role=alertdialog], main, nav, header") ?? document.body).append(
    node,
  );
  node.showPopover();
  place(node, anchor, placement);
  const named = anchor.getAttribute("aria-label") === text;
  if (!named && !anchor.hasAttribute("aria-describedby"))
    anchor.setAttribute("aria-describedby", node.id);
  shown = { node, anchor };
}

/** Shows a text beside a control after 400 ms of hovering, and at once with keyboard focus. */
export function tooltip(text: string, placement: Placement = "below") {
  return (anchor: HTMLElement): (() => void) => {
    if (!text) return () => undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const start = () => {
      clearTimeout(timer);
      timer = setTimeout(() => show(anchor, text, placement), AFTER_MS);
    };
    const focused = () => {
      if (anchor.matches(":focus-visible")) show(anchor, text, placement);
    };
    const stop = () => {
      clearTimeout(timer);
      if (shown?.anchor === anchor) hide();
    };
    const escape = (event: KeyboardEvent) => {
      if (event.key === "Escape" && shown?.anchor === anchor) hide();
    };
    const listeners = [
      ["pointerenter", start],
      ["pointerleave", stop],
      ["pointerdown", stop],
      ["focus", focused],
      ["blur", stop],
      ["keydown", escape],
    ] as const;
    for (const [kind, listener] of listeners)
      anchor.addEventListener(kind, listener as EventListener);
    return () => {
      stop();
      for (const [kind, listener] of listeners)
        anchor.removeEventListener(kind, listener as EventListener);
    };
  };
}
