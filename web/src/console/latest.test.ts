// @vitest-environment node
import { describe, expect, it } from "vitest";
import { latestOnly } from "./latest";

describe("latestOnly", () => {
  it("drops the late response to an older request", async () => {
    const ask = latestOnly();
    let late = (_: string): void => undefined;
    const first = ask(() => new Promise<string>((resolve) => (late = resolve)));
    expect(await ask(() => Promise.resolve("second"))).toBe("second");
    late("first");
    expect(await first).toBeUndefined();
  });

  it("returns each response that no later request has outdated", async () => {
    const ask = latestOnly();
    expect(await ask(() => Promise.resolve(1))).toBe(1);
    expect(await ask(() => Promise.resolve(2))).toBe(2);
  });
});
