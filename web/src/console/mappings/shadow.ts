// A shadow root for CodeMirror: there its styles are adopted sheets, which a strict policy allows.

/** Opens a root in an element, with a box in it that fills the element. */
export function shadowOf(host: HTMLElement): { root: ShadowRoot; parent: HTMLElement } {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const parent = document.createElement("div");
  parent.style.height = "100%";
  root.replaceChildren(parent);
  return { root, parent };
}
