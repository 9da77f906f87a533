import { describe, expect, it } from "vitest";
import { ApiProblem } from "../api/client";
import { leadToLogin, signOut } from "./login";

function page() {
  const visited: string[] = [];
  const shown: ((event: { persisted: boolean }) => void)[] = [];
  const window = {
    location: {
      pathname: "/reporting/settings",
      assign: (address: string) => visited.push(address),
    },
    addEventListener: (_: string, listener: (typeof shown)[0]) => shown.push(listener),
  } as unknown as Window;
  return { window, visited, again: () => shown.forEach((handler) => handler({ persisted: true })) };
}

const REFUSED = new ApiProblem(401, "SignedOut", "");

describe("the redirect to the login page", () => {
  it("opens once, even if several responses report the end of the session", () => {
    const { window, visited } = page();
    leadToLogin(window);
    leadToLogin(window);
    expect(visited).toEqual(["/reporting/login?next=%2Freporting%2Fsettings"]);
  });

  it("opens again for a page that the browser shows again", () => {
    const { window, visited, again } = page();
    leadToLogin(window);
    again();
    leadToLogin(window);
    expect(visited).toHaveLength(2);
  });
});

describe("signing out", () => {
  it("opens the login page, regardless of requests that are refused", async () => {
    const { window, visited } = page();
    await signOut(window, async () => leadToLogin(window));
    leadToLogin(window);
    expect(visited).toEqual(["/reporting/login"]);
  });

  it("opens the login page also if the session had already ended", async () => {
    const { window, visited } = page();
    await signOut(window, () => Promise.reject(REFUSED));
    expect(visited).toEqual(["/reporting/login"]);
  });

  it("stays on the page if the session could not be ended, and redirects when it ends", async () => {
    const { window, visited } = page();
    await expect(signOut(window, () => Promise.reject(new TypeError("offline")))).rejects.toThrow();
    expect(visited).toEqual([]);
    leadToLogin(window);
    expect(visited).toHaveLength(1);
  });
});
