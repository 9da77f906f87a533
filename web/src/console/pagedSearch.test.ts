import { expect, it, vi } from "vitest";
import { PagedSearch } from "./pagedSearch.svelte";

type Held = {
  body: Record<string, unknown>;
  respond: (rows: string[], further: number | null) => void;
};

function service(): Held[] {
  const held: Held[] = [];
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    const body = JSON.parse(init.body as string) as Held["body"];
    return new Promise((resolve) =>
      held.push({
        body,
        respond: (rows, further) => resolve(new Response(JSON.stringify({ rows, further }))),
      }),
    );
  });
  return held;
}

it("loads more rows of the query whose rows are shown", async () => {
  const held = service();
  const search = new PagedSearch<string>("/search");
  const first = search.start({ state: "parked" });
  held[0]?.respond(["a"], 7);
  await first;
  const next = search.start({ state: "done" });
  void search.loadMore(); // the rows shown are about to be replaced
  expect([search.query, held.length]).toEqual([{ state: "parked" }, 2]);
  held[1]?.respond(["b"], 5);
  await next;
  const more = search.loadMore();
  held[2]?.respond(["c"], null);
  await more;
  expect(held[2]?.body).toEqual({ state: "done", before: 5 });
  expect([search.found, search.query]).toEqual([
    { rows: ["b", "c"], further: null },
    { state: "done" },
  ]);
});

it("drops the next page of rows that are no longer shown", async () => {
  const held = service();
  const search = new PagedSearch<string>("/search");
  const first = search.start({});
  held[0]?.respond(["a"], 7);
  await first;
  const more = search.loadMore();
  const next = search.start({ state: "done" });
  held[2]?.respond(["b"], null);
  await next;
  held[1]?.respond(["late"], null);
  await more;
  expect(search.found?.rows).toEqual(["b"]);
});
