import { expect, it } from "vitest";
import type { ListPage } from "./api-types";
import { List, type Question } from "./list.svelte";

interface Row {
  id: number;
}
type Answer = (page: ListPage<Row>) => void;

function held() {
  const asked: { question: Question; answer: Answer; fail: (error: Error) => void }[] = [];
  const list = new List<Row>("", {
    counts: false,
    sorts: ["state"],
    read: (question) => new Promise((answer, fail) => asked.push({ question, answer, fail })),
  });
  return { list, asked };
}
const rows = (...ids: number[]) => ids.map((id) => ({ id }));
const settled = () => new Promise((resolve) => setTimeout(resolve));

it("drops the late answer of an older question, and keeps the old rows until the new one", async () => {
  const { list, asked } = held();
  list.start({ state: ["parked"] });
  list.start({ state: ["refused"] });
  asked[1]?.answer({ rows: rows(5), next: null });
  await settled();
  asked[0]?.answer({ rows: rows(9), next: null });
  await settled();
  expect(list.rows).toEqual(rows(5));
  list.start({});
  expect([list.state, list.rows]).toEqual(["first", rows(5)]);
});

it("loads the next page once, from where the last one ended", async () => {
  const { list, asked } = held();
  list.start({});
  asked[0]?.answer({ rows: rows(9, 8), next: 8 });
  await settled();
  list.more();
  list.more();
  expect(asked).toHaveLength(2);
  expect(asked[1]?.question.before).toBe(8);
  asked[1]?.answer({ rows: rows(7), next: null });
  await settled();
  expect([list.rows, list.end]).toEqual([rows(9, 8, 7), true]);
});

it("follows five empty pages, and then says down to where it searched", async () => {
  const { list, asked } = held();
  list.start({});
  for (let page = 0; page < 5; page += 1) {
    asked[page]?.answer({ rows: [], next: 100 - page, examined_to: 1000 - page });
    await settled();
  }
  expect(asked).toHaveLength(5);
  expect([list.state, list.end, list.searchedTo]).toEqual(["idle", false, 996]);
});

it("keeps its rows if a page fails", async () => {
  const { list, asked } = held();
  list.start({});
  asked[0]?.answer({ rows: rows(9), next: 9 });
  await settled();
  list.more();
  asked[1]?.fail(new Error("offline"));
  await settled();
  expect([list.state, list.problem?.kind, list.rows]).toEqual(["failed", "unreachable", rows(9)]);
});

it("holds new rows back until they are shown", async () => {
  const { list, asked } = held();
  list.start({});
  asked[0]?.answer({ rows: rows(9), next: null });
  await settled();
  const looking = list.look(false);
  expect(asked[1]?.question.after).toBe(9);
  asked[1]?.answer({ rows: rows(10, 11, 9), next: null });
  await looking;
  expect([list.freshCount, list.rows]).toEqual([2, rows(9)]);
  list.showFresh();
  expect(list.rows).toEqual(rows(11, 10, 9));
});

it("too many rows to be sorted come in the order of time, and go on in it", async () => {
  const { list, asked } = held();
  list.start({}, { column: "state", descending: false });
  expect(asked[0]?.question.sort).toBe("state");
  asked[0]?.answer({ rows: rows(9, 8), next: 8, sortable: false });
  await settled();
  expect([list.sort, list.sortable]).toEqual([null, ["time"]]);
  list.more();
  expect(asked[1]?.question).toMatchObject({ sort: "time", descending: true, before: 8 });
});

it("a few rows can be sorted by any column of the list", async () => {
  const { list, asked } = held();
  list.start({});
  asked[0]?.answer({ rows: rows(9), next: null, sortable: true });
  await settled();
  expect(list.sortable).toEqual(["time", "state"]);
});

it("looks for new rows only in a list that begins with the newest", async () => {
  const { list, asked } = held();
  list.start({}, { column: "time", descending: false });
  asked[0]?.answer({ rows: rows(1, 2), next: null, sortable: true });
  await settled();
  await list.look(false);
  expect(asked).toHaveLength(1);
});
