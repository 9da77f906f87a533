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
  group: "",
  tag: "",
  sort: "created",
  descending: false,
};

/** An engine with so many reports; answers when `answer` is called. */
function engine(total: number) {
  const asked: string[] = [];
  const waiting: (() => void)[] = [];
  let failing = false;
  const get = (path: string) =>
    new Promise<Stretch>((resolve, reject) => {
      asked.push(path);
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
    for (const each of waiting.splice(0)) each();
    await new Promise((resolve) => setTimeout(resolve));
  };
  return { api: { get } as unknown as Api, asked, answer, fail: (now: boolean) => (failing = now) };
}

describe("the address of a stretch", () => {
  it("bears every filter that is set, encoded", () => {
    expect(addressOf("/base", QUERY, 100, 50)).toBe(
      "/base/rows?SiteID=SITE+1&status=Ordered&status=Draft&q=a%26b&sort=created" +
        "&descending=false&offset=100&limit=50",
    );
  });
});

describe("the rows that are here", () => {
  it("fetches whole pages, each once", async () => {
    const { api, asked, answer } = engine(1000);
    const cache = new RowCache(api, "", QUERY, () => undefined);
    void cache.want(0, 10);
    void cache.want(5, 15);
    await answer();
    void cache.want(90, 110);
    await answer();

    expect(asked.map((each) => /offset=(\d+)/.exec(each)?.[1])).toEqual(["0", String(PAGE)]);
    expect(cache.at(105)?.reportId).toBe("R105");
    expect(cache.at(205)).toBeUndefined();
    expect(cache.total).toBe(1000);
  });

  it("waits for what is on its way", async () => {
    const { api, answer } = engine(3);
    const cache = new RowCache(api, "", QUERY, () => undefined);
    void cache.want(0, 10);
    const again = cache.want(0, 1).then(() => cache.cursor);
    await answer();
    expect(await again).toBe(7);
  });

  it("asks again after a change, also when the answer before it was still on its way", async () => {
    const { api, asked, answer } = engine(3);
    const cache = new RowCache(api, "", QUERY, () => undefined);
    void cache.want(0, 3);
    await answer();
    void cache.refresh();
    void cache.refresh(); // a second change while the first answer is on its way
    await answer();
    await answer();
    expect(asked).toHaveLength(3);
  });

  it("keeps what it has while the engine cannot be reached, and says so", async () => {
    const { api, answer, fail } = engine(3);
    let told = 0;
    const cache = new RowCache(api, "", QUERY, () => (told += 1));
    void cache.want(0, 3);
    await answer();
    fail(true);
    void cache.refresh();
    await answer();
    expect([cache.failed, cache.at(0)?.reportId]).toEqual([true, "R0"]);
    fail(false);
    void cache.want(0, 3);
    await answer();
    expect([cache.failed, told]).toEqual([false, 3]);
  });

  it("keeps few pages of a long list", async () => {
    const { api, answer } = engine(100_000);
    const cache = new RowCache(api, "", QUERY, () => undefined);
    for (let page = 0; page < 60; page += 1) {
      void cache.want(page * PAGE, page * PAGE + 1);
      await answer();
    }
    expect(cache.at(0)).toBeUndefined();
    expect(cache.at(59 * PAGE)?.reportId).toBe(`R${59 * PAGE}`);
  });

  it("tells nobody once it is closed", async () => {
    const { api, answer } = engine(3);
    let told = 0;
    const cache = new RowCache(api, "", QUERY, () => (told += 1));
    void cache.want(0, 3);
    cache.close();
    await answer();
    expect([told, cache.loaded]).toEqual([0, false]);
  });
});
