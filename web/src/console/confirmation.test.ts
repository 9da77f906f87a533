import { expect, it, vi } from "vitest";
import { confirmation, confirming } from "./confirmation.svelte";

const refusal = () =>
  new Response(JSON.stringify({ code: "reauthentication_required" }), { status: 403 });
const other = () => new Response(JSON.stringify({ code: "not_permitted" }), { status: 403 });
const done = () => new Response("{}");

it("repeats a request once after the person has confirmed", async () => {
  const fetcher = vi.fn().mockResolvedValueOnce(refusal()).mockResolvedValueOnce(done());
  const answer = confirming(fetcher)("/console/api/grants/x", { method: "PUT", body: "{}" });
  await vi.waitFor(() => expect(confirmation.asked).toBe(true));
  confirmation.answer(true);
  expect((await answer).status).toBe(200);
  expect(fetcher).toHaveBeenCalledTimes(2);
  expect(fetcher.mock.calls[1]).toEqual(fetcher.mock.calls[0]);
});

it("gives the refusal where the person cancels, and asks only once a request", async () => {
  const cancelled = vi.fn().mockResolvedValue(refusal());
  const answer = confirming(cancelled)("/x");
  await vi.waitFor(() => expect(confirmation.asked).toBe(true));
  confirmation.answer(false);
  expect((await answer).status).toBe(403);
  expect(cancelled).toHaveBeenCalledTimes(1);
  const again = vi.fn().mockImplementation(() => Promise.resolve(refusal()));
  const second = confirming(again)("/x");
  await vi.waitFor(() => expect(confirmation.asked).toBe(true));
  confirmation.answer(true);
  expect((await second).status).toBe(403);
  expect(again).toHaveBeenCalledTimes(2);
});

it("leaves other refusals alone", async () => {
  const answer = await confirming(vi.fn().mockResolvedValue(other()))("/x");
  expect(((await answer.json()) as { code: string }).code).toBe("not_permitted");
  expect(confirmation.asked).toBe(false);
});
