import { describe, expect, it } from "vitest";
import { newest } from "./newest";

describe("newest", () => {
  it("drops the answer to an older question that comes late", async () => {
    const ask = newest();
    let late = (_: string): void => undefined;
    const first = ask(() => new Promise<string>((resolve) => (late = resolve)));
    expect(await ask(() => Promise.resolve("second"))).toBe("second");
    late("first");
    expect(await first).toBeUndefined();
  });

  it("gives each answer that nothing has overtaken", async () => {
    const ask = newest();
    expect(await ask(() => Promise.resolve(1))).toBe(1);
    expect(await ask(() => Promise.resolve(2))).toBe(2);
  });
});
