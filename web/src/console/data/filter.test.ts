// @vitest-environment jsdom
import { expect, it } from "vitest";
import {
  forgetPrivate,
  fromQuery,
  hasPrivate,
  keepPrivate,
  readPrivate,
  sameFilter,
  toQuery,
  toServer,
  withoutField,
  withValues,
  type FilterField,
} from "./filter";

const FIELDS: FilterField[] = [
  { name: "state", title: "state", type: "choice" },
  { name: "text", title: "error text", type: "text" },
  { name: "number", with: "kind", title: "number", type: "text", private: true },
  { name: "since", with: "until", title: "time", type: "time" },
  { name: "job", title: "job", type: "row" },
];

it("survives the address, with any character", () => {
  const filter = { state: ["parked", "refused"], text: ["a, b\\c & d=é"] };
  const query = new URLSearchParams(toQuery(filter, FIELDS).toString());
  expect(fromQuery(query, FIELDS)).toEqual(filter);
});

it("patient data is never in the address", () => {
  const query = toQuery({ number: ["M1"], kind: ["patient"], state: ["parked"] }, FIELDS);
  expect(query.toString()).toBe("state=parked&private=1");
  expect(hasPrivate(query)).toBe(true);
  expect(fromQuery(new URLSearchParams("number=M1&kind=patient&unknown=1"), FIELDS)).toEqual({});
});

it("private filters are kept in the tab and forgotten at sign-out", () => {
  const key = keepPrivate({ number: ["M1"] }, sessionStorage);
  expect(readPrivate(key, sessionStorage)).toEqual({ number: ["M1"] });
  forgetPrivate(sessionStorage);
  expect(readPrivate(key, sessionStorage)).toEqual({});
  expect(readPrivate(undefined, sessionStorage)).toEqual({});
});

it("no values remove a name, and the order does not matter", () => {
  const filter = { state: ["parked"], since: ["today"], until: ["1000"] };
  expect(withValues(filter, { state: [], job: ["7"] })).toEqual({
    since: ["today"],
    until: ["1000"],
    job: ["7"],
  });
  const time = FIELDS.find((field) => field.type === "time") as FilterField;
  expect(withoutField(filter, time)).toEqual({ state: ["parked"] });
  expect(sameFilter({ state: ["a"], text: ["b"] }, { text: ["b"], state: ["a"], number: [] })).toBe(
    true,
  );
});

it("the server gets lists, texts, times in milliseconds and ids", () => {
  const now = Date.parse("2026-11-29T12:00:00Z");
  const filter = {
    state: ["parked", "refused"],
    number: ["A7001"],
    kind: ["order"],
    since: ["1h"],
    until: ["2026-11-29T12:30"],
    job: ["7"],
    unknown: ["x"],
  };
  expect(toServer(filter, FIELDS, "Europe/Berlin", now)).toEqual({
    state: ["parked", "refused"],
    number: "A7001",
    kind: "order",
    since: now - 3_600_000,
    until: Date.parse("2026-11-29T11:30:00Z"),
    job: 7,
  });
});
