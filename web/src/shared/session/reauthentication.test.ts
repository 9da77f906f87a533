import { expect, it, vi } from "vitest";
import { reauthentication, withReauthentication } from "./reauthentication.svelte";

const refusal = () =>
  new Response(JSON.stringify({ code: "reauthentication_required" }), { status: 403 });
const other = () => new Response(JSON.stringify({ code: "not_permitted" }), { status: 403 });
const done = () => new Response("{}");

it("repeats a request once after the user has confirmed", async () => {
  const fetcher = vi.fn().mockResolvedValueOnce(refusal()).mockResolvedValueOnce(done());
  const answer = withReauthentication(fetcher)("/console/api/grants/x", {
    method: "PUT",
    body: "{}",
  });
  await vi.waitFor(() => expect(reauthentication.open).toBe(true));
  reauthentication.finish(true);
  expect((await answer).status).toBe(200);
  expect(fetcher).toHaveBeenCalledTimes(2);
  expect(fetcher.mock.calls[1]).toEqual(fetcher.mock.calls[0]);
});

it("returns the refusal if the user cancels, and asks once per request", async () => {
  const cancelled = vi.fn().mockResolvedValue(refusal());
  const answer = withReauthentication(cancelled)("/x");
  await vi.waitFor(() => expect(reauthentication.open).toBe(true));
  reauthentication.finish(false);
  expect((await answer).status).toBe(403);
  expect(cancelled).toHaveBeenCalledTimes(1);
  const again = vi.fn().mockImplementation(() => Promise.resolve(refusal()));
  const second = withReauthentication(again)("/x");
  await vi.waitFor(() => expect(reauthentication.open).toBe(true));
  reauthentication.finish(true);
  expect((await second).status).toBe(403);
  expect(again).toHaveBeenCalledTimes(2);
});

it("leaves other refusals alone", async () => {
  const answer = await withReauthentication(vi.fn().mockResolvedValue(other()))("/x");
  expect(((await answer.json()) as { code: string }).code).toBe("not_permitted");
  expect(reauthentication.open).toBe(false);
});
