// @vitest-environment node
import { expect, test } from "vitest";
import type { AuditRow } from "../../data/api-types";
import { runsOf } from "./runs";
import { placeOf } from "./targets";

const event = (id: number, action: string): AuditRow => ({
  id,
  at: id,
  email: "a",
  action,
  subject: "s",
  outcome: "done",
  site: "",
  reason: "",
});

test("equal neighbours become one line with the newest time", () => {
  const found = runsOf([event(5, "save"), event(4, "save"), event(3, "read"), event(2, "save")]);
  expect(found.map((run) => [run.id, run.events.length])).toEqual([
    [5, 2],
    [3, 1],
    [2, 1],
  ]);
});

test("no entries give no lines", () => expect(runsOf([])).toEqual([]));

test.each([
  ["message 17", { page: "message", params: { id: "17" } }],
  ["delivery 9", { page: "delivery", params: { id: "9" } }],
  ["mapping ris-a", { page: "mapping", params: { name: "ris-a" } }],
  ["listener ris a", { page: "connection", params: { kind: "listener", name: "ris a" } }],
  ["site SITE1", { page: "site", params: { id: "SITE1" } }],
  ["message x", null],
  ["audit trail", null],
  ["ola@site1.test", null],
])("the target %s has its page", (subject, page) => expect(placeOf(subject)).toEqual(page));
