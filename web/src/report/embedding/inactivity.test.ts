// @vitest-environment node
import { describe, expect, it } from "vitest";
import { Activity } from "./inactivity";

const MINUTE = 60_000;
const fresh = (endsAt = 0) => new Activity({ idleMs: 30 * MINUTE, endsAt }, 0);

describe("inactivity", () => {
  it("warns a minute before and ends on the minute", () => {
    const activity = fresh();
    expect(activity.state(28.9 * MINUTE).kind).toBe("active");
    expect(activity.state(29.5 * MINUTE)).toEqual({ kind: "warning", seconds: 30, idle: true });
    expect(activity.state(30 * MINUTE)).toEqual({ kind: "expired", idle: true });
  });

  it("restarts with any activity, at most once a second for the host's", () => {
    const activity = fresh();
    activity.note(20 * MINUTE);
    expect(activity.state(45 * MINUTE).kind).toBe("active");
    activity.noteHost(46 * MINUTE);
    activity.noteHost(46 * MINUTE + 500);
    expect(activity.state(76 * MINUTE).kind).toBe("expired");
    expect(activity.state(76 * MINUTE - 1).kind).toBe("warning");
  });

  it("does not extend a session beyond its absolute end", () => {
    const activity = fresh(40 * MINUTE);
    activity.note(39 * MINUTE);
    expect(activity.state(39.5 * MINUTE)).toEqual({ kind: "warning", seconds: 30, idle: false });
    expect(activity.state(40 * MINUTE)).toEqual({ kind: "expired", idle: false });
  });

  it("is reported to the engine at most twice a minute, and only after activity", () => {
    const activity = fresh();
    expect(activity.due(MINUTE)).toBe(false);
    activity.note(MINUTE);
    expect([activity.due(MINUTE), activity.due(MINUTE + 1)]).toEqual([true, false]);
    activity.note(MINUTE + 10);
    expect([activity.due(MINUTE + 20), activity.due(2 * MINUTE)]).toEqual([false, true]);
  });
});
