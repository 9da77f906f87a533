// @vitest-environment node
import { describe, expect, it } from "vitest";
import { ApiProblem, type Api } from "../../shared/api/client";
import { addressOf, PAGE, RowCache, type Query, type Row, type Stretch } from "./rows";

const QUERY: Query = {
  SiteID: "SITE 1",
  status: ["Ordered", "Draft"],
  owner: "",
  q: "a&b",
  location: "",
  modality: "",
  priority: "",
  group: "",
  tag: "",
  sort: "created",
  descending: false,
};

/** An engine with `total` reports; it responds when `answer` is called. */
function engine(total: number) {
  const requests: string[] = [];
  const waiting: (() => void)[] = [];
  let failing = false;
  const get = (path: string) =>
    new Promise<Stretch>((resolve, reject) => {
      requests.push(path);
      waiting.push(() => {
        if (failing) return reject(new ApiProblem(0, "unreachable", ""));
        const query = new URLSearchParams(path.split("?")[1]);
        const [offset, limit] = [Number(query.get("offset")), Number(query.get("limit"))];
        const count = Math.max(0, Math.min(limit, total - offset));
        const items = Array.from({ length: count }, (_, place) => ({
          reportId: `R${offset + place}`,
        })) as Row[];
        resolve({ items, total, cursor: 7 });
      });
    });
  const answer = async () => {
    for (const call of waiting.splice(0)) call();
    await new Promise((resolve) => setTimeout(resolve));
  };
  return {
    api: { get } as unknown as Api,
    requests,
    answer,
    fail: (now: boolean) => (failing = now),
  };
}

describe("the address of a stretch", () => {
  it("has every filter, encoded", () => {
    expect(addressOf("/base", QUERY, 100, 50)).toBe(
      "/base/rows?SiteID=SITE+1&status=Ordered&status=Draft&q=a%26b&sort=created" +
        "&descending=false&offset=100&limit=50",
    );
  });
});

describe("the row cache", () => {
  it("fetches whole pages, each once", async () => {
    const { api, requests, answer } = engine(1000);
    const cache = new RowCache(api, "", QUERY, () => undefined);
    void cache.want(0, 10);
    void cache.want(5, 15);
    await answer();
    void cache.want(90, 110);
    await answer();

    expect(requests.map((request) => /offset=(\d+)/.exec(request)?.[1])).toEqual([
      "0",
      String(PAGE),
    ]);
    expect(cache.at(105)?.reportId).toBe("R105");
    expect(cache.at(205)).toBeUndefined();
    expect(cache.total).toBe(1000);
  });

  it("waits for a pending request", async () => {
    const { api, answer } = engine(3);
    const cache = new RowCache(api, "", QUERY, () => undefined);
    void cache.want(0, 10);
    const again = cache.want(0, 1).then(() => cache.cursor);
    await answer();
    expect(await again).toBe(7);
  });

  it("requests again after a change, also while a request is pending", async () => {
    const { api, requests, answer } = engine(3);
    const cache = new RowCache(api, "", QUERY, () => undefined);
    void cache.want(0, 3);
    await answer();
    void cache.refresh();
    void cache.refresh(); // a second change while the first request is pending
    await answer();
    await answer();
    expect(requests).toHaveLength(3);
  });

  it("keeps its rows while the engine is unreachable, and reports it", async () => {
    const { api, answer, fail } = engine(3);
    let notifications = 0;
    const cache = new RowCache(api, "", QUERY, () => (notifications += 1));
    void cache.want(0, 3);
    await answer();
    fail(true);
    void cache.refresh();
    await answer();
    expect([cache.failed, cache.at(0)?.reportId]).toEqual([true, "R0"]);
    fail(false);
    void cache.want(0, 3);
    await answer();
    expect([cache.failed, notifications]).toEqual([false, 3]);
  });

  it("limits the cached pages of a long list", async () => {
    const { api, answer } = engine(100_000);
    const cache = new RowCache(api, "", QUERY, () => undefined);
    for (let page = 0; page < 60; page += 1) {
      void cache.want(page * PAGE, page * PAGE + 1);
      await answer();
    }
    expect(cache.at(0)).toBeUndefined();
    expect(cache.at(59 * PAGE)?.reportId).toBe(`R${59 * PAGE}`);
  });

  it("sends no notification after it is closed", async () => {
    const { api, answer } = engine(3);
    let notifications = 0;
    const cache = new RowCache(api, "", QUERY, () => (notifications += 1));
    void cache.want(0, 3);
    cache.close();
    await answer();
    expect([notifications, cache.loaded]).toEqual([0, false]);
  });
});
