// The way to the login page, which a page takes once. What was asked before is refused while the
// page leaves; led by that as well, a browser drops the first way and follows the last.
import { ApiProblem } from "../api/client";

const LOGIN = "/reporting/login";
const leaving = new WeakSet<Window>();

/** Leads to the login page, and back here afterwards; a page that leaves already goes on with that. */
export function leadToLogin(window: Window): void {
  if (leaving.has(window)) return;
  leave(window);
  window.location.assign(`${LOGIN}?next=${encodeURIComponent(window.location.pathname)}`);
}

/** Ends the session and leads to the login page; stays here when the session could not be ended. */
export async function signOut(
  window: Window,
  end: () => Promise<unknown>,
  login = LOGIN,
): Promise<void> {
  leave(window);
  try {
    await end();
  } catch (error) {
    if (!(error instanceof ApiProblem && error.status === 401)) {
      leaving.delete(window);
      throw error;
    }
  }
  window.location.assign(login);
}

/** Remembers that the page leaves, until a browser shows it again (its Back button). */
function leave(window: Window): void {
  leaving.add(window);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) leaving.delete(window);
  });
}
