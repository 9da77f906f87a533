// @vitest-environment node
import { describe, expect, it, vi } from "vitest";
import type { Api } from "../../shared/api/client";
import { followSite } from "./changeFeed";

describe("following a site", () => {
  it("continues from the newest cursor after failures until it is stopped", async () => {
    vi.useFakeTimers();
    const cursors: string[] = [];
    const answers = [
      () => new Response(JSON.stringify({ reportIds: ["R1"], cursor: 5 })),
      () => new Response("", { status: 502 }),
      () => new Response(JSON.stringify({ reportIds: [], cursor: 5 })),
      () => new Response(JSON.stringify({ reportIds: ["R2"], cursor: 9 })),
    ];
    const raw = (path: string) => {
      cursors.push(new URLSearchParams(path.split("?")[1]).get("after") ?? "");
      const next = answers.shift();
      return next ? Promise.resolve(next()) : new Promise<Response>(() => undefined);
    };
    const changed: string[][] = [];
    const stop = followSite({ raw } as unknown as Api, "", "S", 2, (ids) => changed.push(ids));
    await vi.advanceTimersByTimeAsync(4000);
    stop();

    expect(changed).toEqual([["R1"], ["R2"]]);
    expect(cursors).toEqual(["2", "5", "5", "5", "9"]);
    vi.useRealTimers();
  });
});
