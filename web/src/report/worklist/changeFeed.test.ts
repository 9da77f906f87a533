// @vitest-environment node
import { describe, expect, it, vi } from "vitest";
import type { Api } from "../../shared/api/client";
import { followSite } from "./changeFeed";

describe("following a site", () => {
  it("goes on from the newest cursor, through failures, until it is stopped", async () => {
    vi.useFakeTimers();
    const asked: string[] = [];
    const answers = [
      () => new Response(JSON.stringify({ reportIds: ["R1"], cursor: 5 })),
      () => new Response("", { status: 502 }),
      () => new Response(JSON.stringify({ reportIds: [], cursor: 5 })),
      () => new Response(JSON.stringify({ reportIds: ["R2"], cursor: 9 })),
    ];
    const raw = (path: string) => {
      asked.push(new URLSearchParams(path.split("?")[1]).get("after") ?? "");
      const next = answers.shift();
      return next ? Promise.resolve(next()) : new Promise<Response>(() => undefined);
    };
    const heard: string[][] = [];
    const stop = followSite({ raw } as unknown as Api, "", "S", 2, (ids) => heard.push(ids));
    await vi.advanceTimersByTimeAsync(4000);
    stop();

    expect(heard).toEqual([["R1"], ["R2"]]);
    expect(asked).toEqual(["2", "5", "5", "5", "9"]);
    vi.useRealTimers();
  });
});
