// @vitest-environment node
import { describe, expect, it } from "vitest";
import { serialize, coalesce } from "./callOrder";

/** A call that the test completes. */
function slow() {
  const calls: string[] = [];
  const answers: ((how: "well" | "badly") => void)[] = [];
  const call = (name: string) => {
    calls.push(name);
    return new Promise<string>((resolve, reject) => {
      answers.push((how) => (how === "well" ? resolve(name) : reject(new Error(name))));
    });
  };
  return { calls, answers, call };
}

describe("serialized calls", () => {
  it("wait for the previous response, in order", async () => {
    const { calls, answers, call } = slow();
    const choose = serialize(call);
    const answered = ["de-DE", "pt-BR", "es-ES"].map((language) => choose(language));
    expect(calls).toEqual(["de-DE"]);
    answers[0]?.("well");
    await answered[0];
    await expect.poll(() => calls).toEqual(["de-DE", "pt-BR"]);
    answers[1]?.("badly");
    await expect(answered[1]).rejects.toThrow("pt-BR");
    await expect.poll(() => calls).toEqual(["de-DE", "pt-BR", "es-ES"]);
    answers[2]?.("well");
    expect(await answered[2]).toBe("es-ES");
  });

  it("start at once if none is pending", async () => {
    const { calls, answers, call } = slow();
    const choose = serialize(call);
    const first = choose("dark");
    answers[0]?.("well");
    await first;
    await new Promise((later) => setTimeout(later));
    void choose("light");
    expect(calls).toEqual(["dark", "light"]);
  });
});

describe("coalesced calls", () => {
  it("run one at a time, and once more for all callers that arrive during the run", async () => {
    const { calls, answers, call } = slow();
    const look = coalesce(() => call(`look ${calls.length}`));
    const first = look();
    const others = [look(), look(), look()];
    expect(calls).toHaveLength(1);
    answers[0]?.("badly");
    await expect(first).rejects.toThrow("look 0");
    await expect.poll(() => calls).toHaveLength(2);
    answers[1]?.("well");
    expect(await Promise.all(others)).toEqual(["look 1", "look 1", "look 1"]);
    const later = look();
    expect(calls).toHaveLength(3);
    answers[2]?.("well");
    expect(await later).toBe("look 2");
  });
});
