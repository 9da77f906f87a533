import { cleanup, fireEvent, render, waitFor } from "@testing-library/svelte";
import { afterEach, expect, it, vi } from "vitest";
import { createApi } from "../../shared/api/client";
import type { Account } from "../home/account.svelte";
import Worklist from "./Worklist.svelte";

vi.stubGlobal(
  "ResizeObserver",
  class {
    observe = () => undefined;
    unobserve = () => undefined;
    disconnect = () => undefined;
  },
);
afterEach(cleanup);

it("is told of changes from the rows on that it shows, though another view was chosen meanwhile", async () => {
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
