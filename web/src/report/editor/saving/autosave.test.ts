// @vitest-environment node
import { describe, expect, it } from "vitest";
import { saved, begun, done, due, edited, FRESH, isDirty, lost, PACE, refused } from "./autosave";

describe("autosave", () => {
  it("waits for a pause in typing, up to a limit", () => {
    let state = edited(FRESH, 1000);
    expect(due(state, PACE)).toBe(1000 + PACE.quiet);
    for (let now = 1100; now < 10_000; now += 100) state = edited(state, now);
    expect(due(state, PACE)).toBe(1000 + PACE.longest);
  });

  it("counts as saved after the engine has the newest edit", () => {
    let state = begun(edited(FRESH, 0));
    expect(due(state, PACE)).toBeNull();
    state = done(edited(state, 50), 100);
    expect(state.phase).toBe("waiting");
    expect(isDirty(state)).toBe(true);
    state = done(begun(state), 200);
    expect([state.phase, state.savedAt, isDirty(state)]).toEqual(["saved", 200, false]);
  });

  it("retries without limit and with growing delays while the engine is unreachable", () => {
    let state = edited(FRESH, 0);
    const waits: number[] = [];
    for (let count = 0; count < 8; count += 1) {
      state = lost(begun(state), 0);
      waits.push(due(state, PACE) ?? -1);
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 15_000, 15_000, 15_000, 15_000]);
    expect(edited(state, 5).phase).toBe("offline");
    expect(done(begun(state), 9).failures).toBe(0);
  });

  it("does not retry after a refusal, and still counts edits", () => {
    const state = edited(refused(begun(edited(FRESH, 0)), "being_edited"), 10);
    expect(due(state, PACE)).toBeNull();
    expect([state.phase, state.reason, isDirty(state)]).toEqual(["refused", "being_edited", true]);
    expect(isDirty(saved(state))).toBe(false);
  });
});
