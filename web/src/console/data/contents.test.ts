import { expect, it, vi } from "vitest";
import { Contents } from "./contents.svelte";

interface Asked {
  ids: number[];
  columns: string[];
}
/** A service that reads at most `most` messages in one call. */
function service(most: number) {
  const asked: Asked[] = [];
  vi.stubGlobal("fetch", (_path: string, init: RequestInit) => {
    const body = JSON.parse(String(init.body)) as Asked;
    asked.push(body);
    const read = body.ids.slice(0, most);
    const values = Object.fromEntries(
      read.map((id) => [
        id,
        Object.fromEntries(body.columns.map((name) => [name, `${name} ${id}`])),
      ]),
    );
    return Promise.resolve(Response.json({ values, left: body.ids.slice(most) }));
  });
  return asked;
}

it("reads each value once, for the rows where the list rests", async () => {
  const asked = service(100);
  const contents = new Contents("messages");
  contents.want([1, 2], ["name"]);
  contents.want([5, 6], ["name"]);
  expect(contents.value(5, "name")).toBeUndefined();
  await vi.waitFor(() => expect(contents.value(6, "name")).toBe("name 6"));
  contents.want([6, 7], ["name", "accession"]);
  await vi.waitFor(() => expect(contents.value(6, "accession")).toBe("accession 6"));
  contents.want([6, 7], ["name", "accession"]);
  contents.want([8], ["name"]);
  await vi.waitFor(() => expect(contents.value(8, "name")).toBe("name 8"));
  expect(asked.map((call) => call.ids)).toEqual([[5, 6], [6, 7], [8]]);
});

it("asks again for messages that were not read in time, a few times", async () => {
  const asked = service(1);
  const contents = new Contents("messages");
  contents.want([1, 2, 3, 4, 5, 6], ["name"]);
  await vi.waitFor(() => expect(contents.value(6, "name")).toBeNull());
  expect(asked).toHaveLength(4);
  expect([1, 4, 5].map((id) => contents.value(id, "name"))).toEqual(["name 1", "name 4", null]);
});

it("reads at most a hundred rows in one call, and forgets what was mapped again", async () => {
  const asked = service(100);
  const contents = new Contents("messages");
  const ids = Array.from({ length: 130 }, (_, index) => index + 1);
  contents.want(ids, ["name"]);
  await vi.waitFor(() => expect(contents.value(130, "name")).toBe("name 130"));
  expect(asked.map((call) => call.ids.length)).toEqual([100, 30]);
  contents.forget([1]);
  expect(contents.value(1, "name")).toBeUndefined();
  expect(contents.value(2, "name")).toBe("name 2");
  contents.want([1, 2], ["name"]);
  await vi.waitFor(() => expect(contents.value(1, "name")).toBe("name 1"));
  expect(asked.at(-1)?.ids).toEqual([1]);
});
