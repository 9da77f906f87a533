// What makes an element a modal dialog: it lies in `#floats`, all else but the toasts is inert, Tab
// stays in it, and the focus returns when it goes. `<dialog>` would make the toasts inert, too.

const FIRST = "[autofocus], input:not([tabindex='-1']), select, textarea";
const STOPS = `a[href], button, input, select, textarea, [tabindex]`;

const open: HTMLElement[] = [];
let made: Element[] = [];

/** Makes everything beside the last dialog inert, except the toasts. */
function cover(): void {
  for (const element of made) element.removeAttribute("inert");
  made = [];
  const top = open.at(-1);
  for (let at: Element | null = top ?? null; at && at !== document.body; at = at.parentElement)
    for (const beside of at.parentElement?.children ?? [])
      if (beside !== at && !beside.matches("[inert], [data-toasts], .scrim, script, style")) {
        beside.setAttribute("inert", "");
        made.push(beside);
      }
}

const isStop = (element: HTMLElement) =>
  element.tabIndex >= 0 && !element.matches(":disabled") && element.offsetParent !== null;

/** The first field has the focus, else the dialog: the button that closes it is not what a person wants. */
export function modal(onescape: () => void) {
  return (node: HTMLElement): (() => void) => {
    const before = document.activeElement;
    document.querySelector("#floats")?.append(node);
    open.push(node);
    cover();
    const dialog = node.querySelector<HTMLElement>("[aria-modal]") ?? node;
    (dialog.querySelector<HTMLElement>(FIRST) ?? dialog).focus();
    function pressed(event: KeyboardEvent): void {
      if (open.at(-1) !== node || event.defaultPrevented) return;
      if (event.key === "Escape") {
        event.preventDefault();
        onescape();
      }
      if (event.key !== "Tab") return;
      const stops = [...dialog.querySelectorAll<HTMLElement>(STOPS)].filter(isStop);
      const [end, start] = event.shiftKey ? [stops[0], stops.at(-1)] : [stops.at(-1), stops[0]];
      const at = document.activeElement;
      if (at !== end && (at !== dialog || !event.shiftKey) && dialog.contains(at)) return;
      event.preventDefault();
      (start ?? dialog).focus();
    }
    document.addEventListener("keydown", pressed);
    return () => {
      document.removeEventListener("keydown", pressed);
      const had = node.contains(document.activeElement) || document.activeElement === document.body;
      node.remove();
      open.splice(open.indexOf(node), 1);
      cover();
      if (had && before instanceof HTMLElement && before.isConnected) before.focus();
    };
  };
}
