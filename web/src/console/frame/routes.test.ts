import { expect, it } from "vitest";
import { href, matchOf, NAVIGATION, parentOf, PAGE_NAMES, renamed, ROUTES } from "./routes";

it.each([
  ["/console", "/console/overview"],
  ["/console/", "/console/overview"],
  ["/console/dashboard", "/console/overview"],
  ["/console/parked", "/console/attention"],
  ["/console/find", "/console/orders"],
  ["/console/worklist", "/console/orders?list=unread"],
  ["/console/channels", "/console/connections"],
  ["/console/deeds", "/console/audit"],
])("the old address %s leads to %s", (old, now) => {
  expect(renamed(old)).toBe(now);
  expect(matchOf(new URL(now, "http://x").pathname).page).not.toBeNull();
});

it("an address and its page are the same, with any name", () => {
  for (const page of PAGE_NAMES) {
    const names = [...ROUTES[page].path.matchAll(/:(\w+)/g)].map((found) => found[1] ?? "");
    const params = Object.fromEntries(names.map((name) => [name, "a/b ü%"]));
    expect(matchOf(href(page, params))).toEqual({ page, params });
  }
});

it("a part that may be left out is left out", () => {
  expect(href("connection", { kind: "listener", name: "ris-a" })).toBe(
    "/console/connections/listener/ris-a",
  );
  expect(matchOf("/console/connections/new").page).toBe("new_connection");
  expect(matchOf("/console/nowhere")).toEqual({ page: null, params: {} });
  expect(renamed("/console/messages/1")).toBeNull();
});

it("every page belongs to one of the navigation, and each has its own key", () => {
  const pages = NAVIGATION.flatMap((group) => group.pages);
  expect(new Set(pages.map((one) => one.key)).size).toBe(pages.length);
  const known = pages.map((one) => one.page as string);
  const others = PAGE_NAMES.filter((page) => !known.includes(parentOf(page)));
  expect(others).toEqual(["start", "jobs", "job"]);
});
