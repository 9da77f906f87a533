// A shadow root for CodeMirror: its styles are adopted sheets there, which the content security
// policy permits.

/** Attaches a shadow root to an element, with a child that fills the element. */
export function createShadowRoot(host: HTMLElement): { root: ShadowRoot; parent: HTMLElement } {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const parent = document.createElement("div");
  parent.style.height = "100%";
  root.replaceChildren(parent);
  return { root, parent };
}
