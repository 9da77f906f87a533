// Navigation to the login page, once per page. Requests that fail while the page leaves must not
// start a second navigation, which would replace the first one.
import { ApiProblem } from "../api/client";

const LOGIN = "/reporting/login";
const leaving = new WeakSet<Window>();

/** Navigates to the login page, which returns here, unless the page is already leaving. */
export function leadToLogin(window: Window): void {
  if (leaving.has(window)) return;
  leave(window);
  window.location.assign(`${LOGIN}?next=${encodeURIComponent(window.location.pathname)}`);
}

/** Ends the session and navigates to the login page; stays on this page if that fails. */
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

/** Marks the page as leaving until the browser shows it again (Back button). */
function leave(window: Window): void {
  leaving.add(window);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) leaving.delete(window);
  });
}
