// @vitest-environment node
import { expect, it } from "vitest";
import { createApi } from "../../shared/api/client";
import { follow, type Follower } from "./launchFollower";

const REQUEST = { sequence: 4, accession: "A9" };

function follower(answer: Response, more: Partial<Follower> = {}) {
  const posted: [string, unknown][] = [];
  const api = createApi({ token: "t" }, async (path, init) => {
    posted.push([String(path).split("/").pop() ?? "", JSON.parse(String(init?.body))]);
    return String(path).endsWith("/follow") ? answer : new Response(null, { status: 204 });
  });
  const ready = () => Promise.resolve();
  return { posted, follower: { api, ready, busy: () => false, saveMs: 20, ...more } };
}

const problem = (status: number, code: string) => Response.json({ code }, { status });

it("saves, opens the launch and returns the new page", async () => {
  const { posted, follower: given } = follower(Response.json({ session: "next" }));
  expect(await follow(given, REQUEST)).toEqual({ kind: "switched", boot: { session: "next" } });
  expect(posted).toEqual([["follow", { sequence: 4 }]]);
});

it("stays if saving fails or takes too long, or a dialog is open", async () => {
  const never = new Promise<void>(() => undefined);
  const cases: [Partial<Follower>, string][] = [
    [{ ready: () => Promise.reject(new Error("offline")) }, "unsaved"],
    [{ ready: () => never }, "unsaved"],
    [{ busy: () => true }, "dialog"],
  ];
  for (const [more, reason] of cases) {
    const { posted, follower: given } = follower(Response.json({}), more);
    expect(await follow(given, REQUEST)).toEqual({ kind: "stayed", reason });
    expect(posted).toEqual([["stay", { sequence: 4, reason }]]);
  }
});

it("distinguishes a newer launch from one that cannot be opened", async () => {
  const newer = follower(problem(409, "superseded"));
  expect(await follow(newer.follower, REQUEST)).toEqual({ kind: "superseded" });
  const away = follower(problem(503, "unavailable"));
  expect(await follow(away.follower, REQUEST)).toEqual({ kind: "unreachable" });
  const gone = follower(problem(404, "link_gone"));
  expect(await follow(gone.follower, REQUEST)).toEqual({ kind: "stayed", reason: "not_opened" });
});
