import { afterEach, expect, it, vi } from "vitest";
import { Search } from "./search.svelte";

type Held = {
  body: Record<string, unknown>;
  give: (rows: string[], further: number | null) => void;
};

function service(): Held[] {
  const held: Held[] = [];
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    const body = JSON.parse(init.body as string) as Held["body"];
    return new Promise((resolve) =>
      held.push({
        body,
        give: (rows, further) => resolve(new Response(JSON.stringify({ rows, further }))),
      }),
    );
  });
  return held;
}

afterEach(() => vi.unstubAllGlobals());

it("goes on with the question whose rows are shown", async () => {
  const held = service();
  const search = new Search<string>("/search");
  const first = search.begin({ state: "parked" });
  held[0]?.give(["a"], 7);
  await first;
  const next = search.begin({ state: "done" });
  void search.goOn(); // the rows that are shown are about to go
  expect([search.asked, held.length]).toEqual([{ state: "parked" }, 2]);
  held[1]?.give(["b"], 5);
  await next;
  const more = search.goOn();
  held[2]?.give(["c"], null);
  await more;
  expect(held[2]?.body).toEqual({ state: "done", before: 5 });
  expect([search.found, search.asked]).toEqual([
    { rows: ["b", "c"], further: null },
    { state: "done" },
  ]);
});

it("drops the page behind rows that are gone", async () => {
  const held = service();
  const search = new Search<string>("/search");
  const first = search.begin({});
  held[0]?.give(["a"], 7);
  await first;
  const more = search.goOn();
  const next = search.begin({ state: "done" });
  held[2]?.give(["b"], null);
  await next;
  held[1]?.give(["late"], null);
  await more;
  expect(search.found?.rows).toEqual(["b"]);
});
