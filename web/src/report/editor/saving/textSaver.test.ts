import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiProblem } from "../../../shared/api/client";
import { fromText, plainText, type ReportDocument } from "../text/document";
import type { Entry, Journal } from "./journal";
import { openJournal } from "./journal";
import { TextSaver } from "./textSaver.svelte";
import { recovery } from "./recovery";

class Shelf implements Journal {
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

/** A text that is typed into, and an engine that answers as it is told. */
function controller(answers: (Error | Promise<void> | null)[] = [], full = false) {
  const shelf = new Shelf();
  const sent: string[] = [];
  let text = "";
  const onJournalFailed = vi.fn();
  if (full) shelf.keep = () => Promise.reject(new Error("full"));
  const saver = new TextSaver({
    part: "report",
    journal: shelf,
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
  const shelved = () => {
    const entry = shelf.kept.get("report") as Entry<ReportDocument> | undefined;
    return entry && plainText(entry.content);
  };
  return { saver, sent, type, shelved, onJournalFailed };
}

const offline = () => new ApiProblem(0, "unreachable", "");

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

describe("a text that is kept", () => {
  it("is in the journal within half a second, and forgotten there once the engine has it", async () => {
    const { sent, type, shelved } = controller();
    type("a");
    await vi.advanceTimersByTimeAsync(500);
    expect([shelved(), sent]).toEqual(["a", []]);
    await vi.advanceTimersByTimeAsync(2000);
    expect([shelved(), sent]).toEqual([undefined, ["a"]]);
  });

  it("never lacks more than half a second while somebody types on", async () => {
    const { type, shelved } = controller(Array(50).fill(offline()) as Error[]);
    let typed = "";
    for (let count = 0; count < 100; count += 1) {
      typed += "x";
      type("x");
      await vi.advanceTimersByTimeAsync(100);
      if (count > 10) expect(typed.length - (shelved() ?? "").length).toBeLessThanOrEqual(5);
    }
  });

  it("goes to the engine within a second where this computer keeps nothing any more", async () => {
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

  it("is saved by itself when the engine is back", async () => {
    const { saver, sent, type, shelved } = controller([offline(), offline()]);
    type("a");
    await vi.advanceTimersByTimeAsync(1500);
    expect([saver.saving.phase, shelved()]).toEqual(["offline", "a"]);
    type("b");
    await vi.advanceTimersByTimeAsync(6000);
    expect([saver.saving.phase, sent]).toEqual(["saved", ["ab"]]);
  });

  it("stays in the journal when the engine refuses it, and is not sent again unasked", async () => {
    const { saver, sent, type, shelved } = controller([new ApiProblem(409, "being_edited", "")]);
    type("a");
    await vi.advanceTimersByTimeAsync(60_000);
    expect([saver.saving.phase, saver.saving.reason]).toEqual(["refused", "being_edited"]);
    expect([shelved(), sent]).toEqual(["a", []]);
    saver.resume();
    await vi.advanceTimersByTimeAsync(2000);
    expect(sent).toEqual(["a"]);
  });

  it.each([
    new ApiProblem(500, "internal_error", ""),
    new ApiProblem(501, "no_problem_body", ""),
    new ApiProblem(503, "busy", ""),
    new ApiProblem(599, "no_problem_body", ""),
    new ApiProblem(429, "too_many_requests", ""),
    new ApiProblem(408, "no_problem_body", ""),
    new ApiProblem(403, "no_problem_body", ""), // a proxy's page: the engine has not refused
    new ApiProblem(0, "timeout", ""),
    new SyntaxError("a page in place of the answer"),
  ])("is saved by itself after $status $code", async (problem) => {
    const { saver, sent, type, shelved } = controller([problem, problem]);
    type("a");
    await vi.advanceTimersByTimeAsync(1500);
    expect([saver.saving.phase, saver.saving.trouble, shelved()]).toEqual([
      "offline",
      "failing",
      "a",
    ]);
    await vi.advanceTimersByTimeAsync(6000);
    expect([saver.saving.phase, saver.saving.trouble, sent]).toEqual(["saved", "", ["a"]]);
  });

  it("is reported as not saved within five seconds, also while somebody types on", async () => {
    const { saver, type } = controller([new Promise(() => undefined)]);
    for (let count = 0; count < 48; count += 1) {
      type("x");
      await vi.advanceTimersByTimeAsync(100);
    }
    expect([saver.saving.phase, saver.saving.trouble]).toEqual(["saving", "failing"]);
  });

  it("is not reported as not saved while answers come", async () => {
    const { saver, type } = controller();
    for (let count = 0; count < 100; count += 1) {
      type("x");
      await vi.advanceTimersByTimeAsync(100);
      expect(saver.saving.trouble).toBe("");
    }
  });

  it("is sent to its last letter before anybody signs", async () => {
    const { saver, sent, type } = controller();
    type("a");
    const flushed = saver.flush();
    type("b");
    await flushed;
    expect([sent.at(-1), saver.dirty]).toEqual(["ab", false]);
  });
});

describe("text that was kept", () => {
  const entry = { content: fromText("typed"), version: 3, at: 0 };
  const stored = { document: fromText("stored"), version: 3, writable: true };

  it("goes back, is forgotten, or is asked about", () => {
    expect(recovery(null, stored)).toBe("nothing");
    expect(recovery(entry, { ...stored, document: fromText("typed") })).toBe("forget");
    expect(recovery(entry, stored)).toBe("restore");
    expect(recovery(entry, { ...stored, version: 4 })).toBe("ask");
    expect(recovery(entry, { ...stored, writable: false })).toBe("ask");
  });

  it("has no place where the browser gives none", async () => {
    expect(await openJournal("r", "", { crypto: globalThis.crypto })).toBeNull();
    expect(
      await openJournal("r", "", { crypto: {} as Crypto, indexedDB: {} as IDBFactory }),
    ).toBeNull();
  });
});
