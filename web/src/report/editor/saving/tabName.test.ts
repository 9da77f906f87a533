import { expect, it } from "vitest";
import { openTab } from "./tabName";

it("a frame whose browser denies it storage has a name too", () => {
  const leave: (() => void)[] = [];
  const scope = {
    get sessionStorage(): Storage {
      throw new DOMException("Access is denied for this document.", "SecurityError");
    },
    crypto,
    addEventListener: ((_: string, listener: () => void) =>
      void leave.push(listener)) as typeof globalThis.addEventListener,
  };
  expect(openTab(scope)).toMatch(/^[0-9a-f]{24}$/);
  leave[0]?.(); // the page is left
});
