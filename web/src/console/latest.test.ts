// @vitest-environment node
import { describe, expect, it } from "vitest";
import { latestOnly } from "./latest";

describe("latestOnly", () => {
  it("drops the late response to an older request", async () => {
    const request = latestOnly();
    let resolveFirst = (_: string): void => undefined;
    const first = request(() => new Promise<string>((resolve) => (resolveFirst = resolve)));
    expect(await request(() => Promise.resolve("second"))).toBe("second");
    resolveFirst("first");
    expect(await first).toBeUndefined();
  });

  it("returns each response that no later request has outdated", async () => {
    const request = latestOnly();
    expect(await request(() => Promise.resolve(1))).toBe(1);
    expect(await request(() => Promise.resolve(2))).toBe(2);
  });
});
