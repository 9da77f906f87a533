// The name of this browser tab. A reloaded page has a new session; by the name of its tab the
// service knows that it replaces the page before and is no second window.
//
// The name lies in the tab's storage only while no page is open in the tab: a page takes it when it
// opens and puts it back when it is left. A duplicated tab therefore finds no name and gets its own.

const KEY = "report.tab";

interface Scope {
  sessionStorage: Storage;
  crypto: Crypto;
  addEventListener: typeof globalThis.addEventListener;
}

/** Returns the name that the page before left in this tab, or a new one. */
export function openTab(scope: Scope = window): string {
  const name = takeName(scope) ?? newName(scope.crypto);
  scope.addEventListener("pagehide", () => putName(scope, name));
  // A page that the browser shows again from its memory is open again.
  scope.addEventListener("pageshow", ({ persisted }) => persisted && takeName(scope));
  return name;
}

let own: string | undefined;

/** The name of the tab of this page. */
export const tabName = (): string => (own ??= openTab());

function takeName(scope: Scope): string | null {
  try {
    const { sessionStorage } = scope; // throws in a frame without storage
    const name = sessionStorage.getItem(KEY);
    sessionStorage.removeItem(KEY);
    return name !== null && /^[0-9a-f]{24}$/.test(name) ? name : null;
  } catch {
    return null; // a frame may have no storage
  }
}

function putName(scope: Scope, name: string): void {
  try {
    scope.sessionStorage.setItem(KEY, name);
  } catch {
    // without storage a reloaded page waits until the page before is known to be closed
  }
}

function newName(crypto: Crypto): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
