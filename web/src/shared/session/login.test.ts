import { describe, expect, it } from "vitest";
import { ApiProblem } from "../api/client";
import { leadToLogin, signOut } from "./login";

function page() {
  const ways: string[] = [];
  const shown: ((event: { persisted: boolean }) => void)[] = [];
  const window = {
    location: { pathname: "/reporting/settings", assign: (way: string) => ways.push(way) },
    addEventListener: (_: string, heard: (typeof shown)[0]) => shown.push(heard),
  } as unknown as Window;
  return { window, ways, again: () => shown.forEach((each) => each({ persisted: true })) };
}

const REFUSED = new ApiProblem(401, "SignedOut", "");

describe("the way to the login page", () => {
  it("is taken once, however many answers say that the session is over", () => {
    const { window, ways } = page();
    leadToLogin(window);
    leadToLogin(window);
    expect(ways).toEqual(["/reporting/login?next=%2Freporting%2Fsettings"]);
  });

  it("is another one for a page that the browser shows again", () => {
    const { window, ways, again } = page();
    leadToLogin(window);
    again();
    leadToLogin(window);
    expect(ways).toHaveLength(2);
  });
});

describe("signing out", () => {
  it("leads to the login page, whatever is refused before and after it is answered", async () => {
    const { window, ways } = page();
    await signOut(window, async () => leadToLogin(window));
    leadToLogin(window);
    expect(ways).toEqual(["/reporting/login"]);
  });

  it("leads there too when the session was over already", async () => {
    const { window, ways } = page();
    await signOut(window, () => Promise.reject(REFUSED));
    expect(ways).toEqual(["/reporting/login"]);
  });

  it("stays when the session could not be ended, and leads again when it is over", async () => {
    const { window, ways } = page();
    await expect(signOut(window, () => Promise.reject(new TypeError("offline")))).rejects.toThrow();
    expect(ways).toEqual([]);
    leadToLogin(window);
    expect(ways).toHaveLength(1);
  });
});
