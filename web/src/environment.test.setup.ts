// The test files of a worker share its document, because a new one for each file takes three times
// as long. What a test changes ends with it.
import { afterEach, vi } from "vitest";

vi.resetModules(); // each file has the state of our modules for itself
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

// Tests without a document (`@vitest-environment node`) do not load the library.
if (typeof document !== "undefined") {
  const { cleanup, configure } = await import("@testing-library/svelte");
  configure({ asyncUtilTimeout: 15_000 }); // its default of one second is short for a slow machine
  afterEach(() => {
    cleanup();
    document.body.replaceChildren();
  });
  // what jsdom lacks
  HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
    this.open = true;
  };
  HTMLElement.prototype.showPopover ??= function (this: HTMLElement) {
    this.setAttribute("data-open", "");
  };
  Element.prototype.scrollIntoView ??= () => undefined;
  globalThis.ResizeObserver ??= class {
    observe(): void {
      return;
    }
    unobserve(): void {
      return;
    }
    disconnect(): void {
      return;
    }
  };
  window.matchMedia ??= (query: string) =>
    Object.assign(new EventTarget(), {
      matches: false,
      media: query,
      onchange: null,
      addListener: () => undefined,
      removeListener: () => undefined,
    });
  Range.prototype.getClientRects ??= () => [] as unknown as DOMRectList;
  Range.prototype.getBoundingClientRect ??= () => new DOMRect();
}
