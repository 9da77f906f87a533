// @vitest-environment node
import { expect, test } from "vitest";
import { collapseRepeats } from "./auditTrail";
import type { ConsoleAuditEvent } from "../types";

const event = (id: number, action: string): ConsoleAuditEvent =>
  ({
    id,
    at: id,
    email: "a",
    action,
    subject: "s",
    outcome: "done",
    site: "",
    reason: "",
  }) as ConsoleAuditEvent;

test("equal neighbours become one line with the newest time", () => {
  const found = collapseRepeats([
    event(5, "save"),
    event(4, "save"),
    event(3, "read"),
    event(2, "save"),
  ]);
  expect(found.map(([each, count]) => [each.id, count])).toEqual([
    [5, 2],
    [3, 1],
    [2, 1],
  ]);
});

test("no entries give no lines", () => expect(collapseRepeats([])).toEqual([]));
