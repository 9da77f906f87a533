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
  withField,
  type FilterField,
} from "./filter";

const FIELDS: FilterField[] = [
  { name: "state", title: "state", type: "choice" },
  { name: "text", title: "error text", type: "text" },
  { name: "patient", title: "patient", type: "text", private: true },
];

it("survives the address, with any character", () => {
  const filter = { state: ["parked", "refused"], text: ["a, b\\c & d=é"] };
  const query = new URLSearchParams(toQuery(filter, FIELDS).toString());
  expect(fromQuery(query, FIELDS)).toEqual(filter);
});

it("patient data is never in the address", () => {
  const query = toQuery({ patient: ["Müller"], state: ["parked"] }, FIELDS);
  expect(query.toString()).toBe("state=parked&private=1");
  expect(hasPrivate(query)).toBe(true);
  expect(fromQuery(new URLSearchParams("patient=Müller&unknown=1"), FIELDS)).toEqual({});
});

it("private filters are kept in the tab and forgotten at sign-out", () => {
  const key = keepPrivate({ patient: ["Müller"] }, sessionStorage);
  expect(readPrivate(key, sessionStorage)).toEqual({ patient: ["Müller"] });
  forgetPrivate(sessionStorage);
  expect(readPrivate(key, sessionStorage)).toEqual({});
  expect(readPrivate(undefined, sessionStorage)).toEqual({});
});

it("no values remove a field, and the order does not matter", () => {
  expect(withField({ state: ["parked"], text: ["x"] }, "state", [])).toEqual({ text: ["x"] });
  expect(
    sameFilter({ state: ["a"], text: ["b"] }, { text: ["b"], state: ["a"], patient: [] }),
  ).toBe(true);
});
