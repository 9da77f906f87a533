// @vitest-environment node
import { describe, expect, it } from "vitest";
import { serialize, coalesce } from "./callOrder";

/** A call that is answered when the test says so. */
function slow() {
  const asked: string[] = [];
  const answers: ((how: "well" | "badly") => void)[] = [];
  const call = (name: string) => {
    asked.push(name);
    return new Promise<string>((resolve, reject) => {
      answers.push((how) => (how === "well" ? resolve(name) : reject(new Error(name))));
    });
  };
  return { asked, answers, call };
}

describe("calls in turn", () => {
  it("wait for the answer to the one before, in the order they were asked for", async () => {
    const { asked, answers, call } = slow();
    const choose = serialize(call);
    const answered = ["de-DE", "pt-BR", "es-ES"].map((each) => choose(each));
    expect(asked).toEqual(["de-DE"]);
    answers[0]?.("well");
    await answered[0];
    await expect.poll(() => asked).toEqual(["de-DE", "pt-BR"]);
    answers[1]?.("badly");
    await expect(answered[1]).rejects.toThrow("pt-BR");
    await expect.poll(() => asked).toEqual(["de-DE", "pt-BR", "es-ES"]);
    answers[2]?.("well");
    expect(await answered[2]).toBe("es-ES");
  });

  it("go out at once where nothing is on its way", async () => {
    const { asked, answers, call } = slow();
    const choose = serialize(call);
    const first = choose("dark");
    answers[0]?.("well");
    await first;
    await new Promise((later) => setTimeout(later));
    void choose("light");
    expect(asked).toEqual(["dark", "light"]);
  });
});

describe("a question of many", () => {
  it("is asked once at a time, and once more for all who asked meanwhile", async () => {
    const { asked, answers, call } = slow();
    const look = coalesce(() => call(`look ${asked.length}`));
    const first = look();
    const others = [look(), look(), look()];
    expect(asked).toHaveLength(1);
    answers[0]?.("badly");
    await expect(first).rejects.toThrow("look 0");
    await expect.poll(() => asked).toHaveLength(2);
    answers[1]?.("well");
    expect(await Promise.all(others)).toEqual(["look 1", "look 1", "look 1"]);
    const later = look();
    expect(asked).toHaveLength(3);
    answers[2]?.("well");
    expect(await later).toBe("look 2");
  });
});
