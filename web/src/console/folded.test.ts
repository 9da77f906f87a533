// The record's lines: what repeats itself is folded, what lies between is not.
import { expect, test } from "vitest";
import { folded } from "./folded";
import type { Deed } from "./types";

const deed = (id: number, action: string): Deed =>
  ({ id, at: id, email: "a", action, subject: "s", outcome: "done", site: "", reason: "" }) as Deed;

test("neighbours that say the same are one line, with the newest time", () => {
  const found = folded([deed(5, "save"), deed(4, "save"), deed(3, "read"), deed(2, "save")]);
  expect(found.map(([each, count]) => [each.id, count])).toEqual([
    [5, 2],
    [3, 1],
    [2, 1],
  ]);
});

test("nothing is nothing", () => expect(folded([])).toEqual([]));
