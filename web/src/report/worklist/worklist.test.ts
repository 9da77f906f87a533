import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { expect, it, vi } from "vitest";
import { createApi } from "../../shared/api/client";
import { Account } from "../home/account.svelte";
import Worklist from "./Worklist.svelte";

vi.stubGlobal(
  "ResizeObserver",
  class {
    observe = () => undefined;
    unobserve = () => undefined;
    disconnect = () => undefined;
  },
);

it("follows changes from the cursor of the shown rows, also if another view was selected", async () => {
  const rows: (() => void)[] = [];
  const followed: string[] = [];
  const api = createApi({ token: null }, (input) => {
    const path = input as string;
    const offer = { locations: [], prelimGroups: [], readers: [] };
    if (path.includes("/site?")) return Promise.resolve(new Response(JSON.stringify(offer)));
    if (path.includes("/changes?")) followed.push(path);
    if (!path.includes("/rows?")) return new Promise(() => undefined);
    const found = JSON.stringify({ items: [], total: 0, cursor: 1234 });
    return new Promise((resolve) => rows.push(() => resolve(new Response(found))));
  });
  const account = { api, siteId: "SITE1", administrates: false } as unknown as Account;
  render(Worklist, { account });
  await waitFor(() => expect(rows).toHaveLength(1));
  await fireEvent.keyDown(document.body, { key: "2" });
  await waitFor(() => expect(rows).toHaveLength(2));
  rows.forEach((give) => give());
  await waitFor(() => expect(followed).toHaveLength(1));
  expect(new URLSearchParams(followed[0]?.split("?")[1]).get("after")).toBe("1234");
});

it("leaves a site's own filters behind when another site is chosen", async () => {
  const asked: URLSearchParams[] = [];
  const api = createApi({ token: null }, (input) => {
    const path = input as string;
    const offer = { locations: ["NORTH"], prelimGroups: [], readers: [] };
    if (path.includes("/site?")) return Promise.resolve(new Response(JSON.stringify(offer)));
    if (!path.includes("/rows?")) return new Promise(() => undefined);
    asked.push(new URLSearchParams(path.split("?")[1]));
    return Promise.resolve(new Response(JSON.stringify({ items: [], total: 0, cursor: 1 })));
  });
  const account = new Account(api);
  account.siteId = "SITE1";
  render(Worklist, { account });
  const location = await screen.findByRole("option", { name: "NORTH" });
  await fireEvent.change(location.closest("select") as HTMLSelectElement, {
    target: { value: "NORTH" },
  });
  await waitFor(() => expect(asked.at(-1)?.get("location")).toBe("NORTH"));
  account.siteId = "SITE2";
  await waitFor(() => expect(asked.at(-1)?.get("SiteID")).toBe("SITE2"));
  expect(asked.filter((query) => query.get("SiteID") === "SITE2" && query.get("location"))).toEqual(
    [],
  );
});
