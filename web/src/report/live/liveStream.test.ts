import { afterEach, expect, it, vi } from "vitest";
import { createApi } from "../../shared/api/client";
import { createLiveStream, type LiveStream } from "./liveStream";

const PATIENT = { timeout: 15_000 };

let live: LiveStream | null = null;
afterEach(() => live?.close());

interface Call {
  path: string;
  lastEventId: string | null;
  bearer: string | null;
}

/** An engine whose stream sends the given texts in turn. */
function engine(texts: (string | number)[]) {
  const calls: Call[] = [];
  const api = createApi({ token: "secret" }, async (input, init) => {
    const headers = new Headers(init?.headers);
    const path = String(input);
    calls.push({
      path,
      lastEventId: headers.get("Last-Event-ID"),
      bearer: headers.get("Authorization"),
    });
    const next = texts.shift();
    if (typeof next === "number") return new Response("{}", { status: next });
    if (next === undefined) throw new TypeError("unreachable");
    return new Response(next);
  });
  return { api, calls };
}

const quickly = { pauseMs: () => 1 };
const CHANGE = 'id: 5\nevent: change\ndata: {"event":"report_signed","own":false}\n\n';

it("requests missed events after a broken connection", async () => {
  const { api, calls } = engine([CHANGE, ": beat\n\n"]);
  live = createLiveStream(api, { after: 3, ...quickly });
  const changed = vi.fn();
  live.on("change", changed);
  await vi.waitFor(() => expect(calls.length).toBeGreaterThan(1), PATIENT);
  expect(changed).toHaveBeenCalledTimes(1);
  expect(calls[0]).toMatchObject({ lastEventId: "3", bearer: "Bearer secret" });
  expect(calls[1]?.lastEventId).toBe("5");
});

it("reports when the engine is unreachable, and when it is reachable again", async () => {
  const { api } = engine([": beat\n\n", 503, ": beat\n\n"]);
  live = createLiveStream(api, quickly);
  const states: unknown[] = [];
  live.on("connection", (data) => states.push(data));
  await vi.waitFor(
    () => expect(states.slice(0, 2)).toEqual([{ online: false }, { online: true }]),
    PATIENT,
  );
});

it("ends with the session, by an event or a refusal", async () => {
  for (const text of ['event: ended\ndata: {"reason":"inactivity"}\n\n', 401]) {
    const { api, calls } = engine([text]);
    live = createLiveStream(api, quickly);
    const ended = vi.fn();
    live.on("ended", ended);
    await vi.waitFor(() => expect(ended).toHaveBeenCalledTimes(1), PATIENT);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(calls).toHaveLength(1);
  }
});
