import { describe, expect, it } from "vitest";
import { createApi } from "../../shared/api/client";
import {
  keepReadingList,
  nextOf,
  readingListOf,
  takeReturning,
  type ReadingList,
} from "./readingList";
import type { Row } from "./rows";

const LIST: ReadingList = {
  reportId: "r2",
  index: 1,
  following: ["r3", "r4"],
  query: {
    SiteID: "S",
    status: ["Ordered"],
    owner: "",
    q: "",
    location: "",
    modality: "",
    priority: "",
    group: "",
    tag: "",
    sort: "created",
    descending: false,
  },
  view: { q: "knee" },
  returning: false,
};

const next = async (...rows: string[]) => {
  const items = rows.map((reportId) => ({ reportId }) as Row);
  const answer = { items, total: items.length, cursor: 0 };
  const api = { ...createApi({ token: null }), get: () => Promise.resolve(answer as never) };
  return nextOf(api, "/account", LIST);
};

describe("the list that a report was opened from", () => {
  it("continues with the next report, also after its report has left the list", async () => {
    expect(await next("r1", "r2", "r3", "r4")).toMatchObject({ reportId: "r3", index: 2 });
    expect(await next("r1", "r3", "r4")).toMatchObject({ reportId: "r3", following: ["r4"] });
    expect(await next("r0", "r1", "r4", "r5")).toMatchObject({ reportId: "r4", index: 2 });
    expect(await next("r1", "r7")).toMatchObject({ reportId: "r7" });
    expect(await next("r1")).toBeNull();
    expect(await next("r1", "r2")).toBeNull();
  });

  it("belongs to its report, and is restored once", () => {
    keepReadingList(LIST);
    expect(readingListOf("r2")).toEqual(LIST);
    expect(readingListOf("r9")).toBeNull();
    expect(takeReturning()).toBeNull();
    keepReadingList({ ...LIST, returning: true });
    expect(takeReturning()?.view).toEqual({ q: "knee" });
    expect(takeReturning()).toBeNull();
  });
});
