import { beforeEach, describe, expect, it, vi } from "vitest";
import { ApiProblem } from "../../../shared/api/client";
import { canonical, fromText, plainText, type ReportDocument } from "../text/document";
import type { Entry, Journal } from "./journal";
import { openJournal } from "./journal";
import { TextSaver } from "./textSaver.svelte";
import { recovery } from "./recovery";

class MemoryJournal implements Journal {
  readonly kept = new Map<string, Entry<unknown>>();
  keep<Content>(part: string, entry: Entry<Content>): Promise<void> {
    this.kept.set(part, entry);
    return Promise.resolve();
  }
  read<Content>(part: string): Promise<Entry<Content> | null> {
    return Promise.resolve((this.kept.get(part) ?? null) as Entry<Content> | null);
  }
  clear(part: string): Promise<void> {
    this.kept.delete(part);
    return Promise.resolve();
  }
  forget(): Promise<void> {
    return Promise.resolve();
  }
}

/** A text, and an engine with the given responses. */
function controller(answers: (Error | Promise<void> | null)[] = [], full = false) {
  const journal = new MemoryJournal();
  const sent: string[] = [];
  let text = "";
  const onJournalFailed = vi.fn();
  if (full) journal.keep = () => Promise.reject(new Error("full"));
  const saver = new TextSaver({
    part: "report",
    journal,
    content: () => fromText(text),
    version: () => 7,
    onJournalFailed,
    send: async (content) => {
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      await answer;
      sent.push(plainText(content));
    },
  });
  const type = (more: string) => {
    text += more;
    saver.edited();
  };
  const journaled = () => {
    const entry = journal.kept.get("report") as Entry<ReportDocument> | undefined;
    return entry && plainText(entry.content);
  };
  return { saver, sent, type, journal, journaled, onJournalFailed };
}

const offline = () => new ApiProblem(0, "unreachable", "");

beforeEach(() => vi.useFakeTimers());

describe("a text with a journal", () => {
  it("is in the journal within half a second, and removed once the engine has it", async () => {
    const { sent, type, journaled } = controller();
    type("a");
    await vi.advanceTimersByTimeAsync(500);
    expect([journaled(), sent]).toEqual(["a", []]);
    await vi.advanceTimersByTimeAsync(2000);
    expect([journaled(), sent]).toEqual([undefined, ["a"]]);
  });

  it("lacks at most half a second in the journal while the user types", async () => {
    const { type, journaled } = controller(Array(50).fill(offline()) as Error[]);
    let typed = "";
    for (let count = 0; count < 100; count += 1) {
      typed += "x";
      type("x");
      await vi.advanceTimersByTimeAsync(100);
      if (count > 10) expect(typed.length - (journaled() ?? "").length).toBeLessThanOrEqual(5);
    }
  });

  it("is sent to the engine within a second if the journal fails", async () => {
    const { sent, type, onJournalFailed } = controller([], true);
    let typed = "";
    for (let count = 0; count < 100; count += 1) {
      typed += "x";
      type("x");
      await vi.advanceTimersByTimeAsync(100);
      if (count > 10) expect(typed.length - (sent.at(-1) ?? "").length).toBeLessThanOrEqual(10);
    }
    expect(onJournalFailed).toHaveBeenCalled();
  });

  it("is saved when the engine is reachable again", async () => {
    const { saver, sent, type, journaled } = controller([offline(), offline()]);
    type("a");
    await vi.advanceTimersByTimeAsync(1500);
    expect([saver.saving.phase, journaled()]).toEqual(["offline", "a"]);
    type("b");
    await vi.advanceTimersByTimeAsync(6000);
    expect([saver.saving.phase, sent]).toEqual(["saved", ["ab"]]);
  });

  it("stays in the journal if the engine refuses it, and is not sent again until resumed", async () => {
    const { saver, sent, type, journaled } = controller([new ApiProblem(409, "being_edited", "")]);
    type("a");
    await vi.advanceTimersByTimeAsync(60_000);
    expect([saver.saving.phase, saver.saving.reason]).toEqual(["refused", "being_edited"]);
    expect([journaled(), sent]).toEqual(["a", []]);
    saver.resume();
    await vi.advanceTimersByTimeAsync(2000);
    expect(sent).toEqual(["a"]);
  });

  it("is not in the journal again after another window has taken it from there", async () => {
    const { type, journal, journaled } = controller(Array(50).fill(offline()) as Error[]);
    type("a");
    await vi.advanceTimersByTimeAsync(2000);
    expect(journaled()).toBe("a");
    journal.kept.clear();
    await vi.advanceTimersByTimeAsync(60_000); // saves fail again and again
    expect(journaled()).toBe(undefined);
    type("b");
    await vi.advanceTimersByTimeAsync(500);
    expect(journaled()).toBe("ab");
  });

  it.each([
    new ApiProblem(500, "internal_error", ""),
    new ApiProblem(501, "no_problem_body", ""),
    new ApiProblem(503, "busy", ""),
    new ApiProblem(599, "no_problem_body", ""),
    new ApiProblem(429, "too_many_requests", ""),
    new ApiProblem(408, "no_problem_body", ""),
    new ApiProblem(403, "no_problem_body", ""), // from a proxy, not from the engine
    new ApiProblem(0, "timeout", ""),
    new SyntaxError("a page instead of JSON"),
  ])("is saved after $status $code", async (problem) => {
    const { saver, sent, type, journaled } = controller([problem, problem]);
    type("a");
    await vi.advanceTimersByTimeAsync(1500);
    expect([saver.saving.phase, saver.saving.trouble, journaled()]).toEqual([
      "offline",
      "failing",
      "a",
    ]);
    await vi.advanceTimersByTimeAsync(6000);
    expect([saver.saving.phase, saver.saving.trouble, sent]).toEqual(["saved", "", ["a"]]);
  });

  it("is reported as not saved within five seconds, also while the user types", async () => {
    const { saver, type } = controller([new Promise(() => undefined)]);
    for (let count = 0; count < 48; count += 1) {
      type("x");
      await vi.advanceTimersByTimeAsync(100);
    }
    expect([saver.saving.phase, saver.saving.trouble]).toEqual(["saving", "failing"]);
  });

  it("is not reported as not saved while responses arrive", async () => {
    const { saver, type } = controller();
    for (let count = 0; count < 100; count += 1) {
      type("x");
      await vi.advanceTimersByTimeAsync(100);
      expect(saver.saving.trouble).toBe("");
    }
  });

  it("is sent completely before a signature", async () => {
    const { saver, sent, type } = controller();
    type("a");
    const flushed = saver.flush();
    type("b");
    await flushed;
    expect([sent.at(-1), saver.dirty]).toEqual(["ab", false]);
  });
});

describe("text in the journal", () => {
  const entry = { content: fromText("typed"), version: 3, at: 0 };
  const stored = { text: canonical(fromText("stored")), version: 3, writable: true };

  it("is restored, is removed, or needs a decision", () => {
    expect(recovery(null, stored)).toBe("nothing");
    expect(recovery(entry, { ...stored, text: canonical(fromText("typed")) })).toBe("forget");
    expect(recovery(entry, stored)).toBe("restore");
    expect(recovery(entry, { ...stored, version: 4 })).toBe("ask");
    expect(recovery(entry, { ...stored, writable: false })).toBe("ask");
  });

  it("is not available without storage", async () => {
    expect(await openJournal("r", "", { crypto: globalThis.crypto })).toBeNull();
    expect(
      await openJournal("r", "", { crypto: {} as Crypto, indexedDB: {} as IDBFactory }),
    ).toBeNull();
  });
});
