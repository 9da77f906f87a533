// Input that is typed while a request is pending is kept.
import type { Editor } from "@tiptap/core";
import { afterEach, expect, it } from "vitest";
import { ApiProblem } from "../../../shared/api/client";
import type { Journal } from "../saving/journal";
import { insertText } from "../text/commands";
import { fromText, plainText } from "../text/document";
import { createEditor } from "../text/editor";
import { requestForText } from "./keyFindings";
import { TextPart } from "./textPart.svelte";

// jsdom has no layout, but scrolling to the selection reads rectangles.

let editor: Editor | undefined;
let answer: () => Promise<void> = () => Promise.resolve();
afterEach(() => editor?.destroy());

function written(text: string, journal: Journal | null = null): TextPart & { editor: Editor } {
  const part = new TextPart({
    name: "report",
    document: fromText(text),
    journal,
    version: () => 3,
    onJournalFailed: () => undefined,
    send: () => answer(),
  });
  part.editor = editor = createEditor({
    place: document.body.appendChild(document.createElement("div")),
    document: part.document,
    editable: true,
    attributes: {},
    macros: () => [],
    onEdit: () => undefined,
    onSelect: () => undefined,
  });
  return Object.assign(part, { editor });
}

it("is in the text that a template produces", async () => {
  const part = written("one");
  const requests: string[] = [];
  const made = await requestForText(part, (content) => {
    if (requests.push(plainText(content)) === 1) insertText(part.editor, "two ");
    return Promise.resolve(plainText(content));
  });
  expect([requests.length, made]).toEqual([2, plainText(part.content())]);
  expect(made).toContain("two");
});

it("does not apply a template to a text that another user edits by then", async () => {
  const part = written("one");
  const ask = () => Promise.resolve(part.editor.setEditable(false, false));
  await expect(requestForText(part, ask)).rejects.toMatchObject({ code: "not_editable" });
});

it("is not replaced by the journal: the user decides", async () => {
  const entry = { content: fromText("kept"), version: 3, at: 1 };
  let read: (entry: unknown) => void = () => undefined;
  const journal = {
    read: () => new Promise((resolve) => (read = resolve)),
    keep: () => Promise.resolve(),
    clear: () => Promise.resolve(),
  } as unknown as Journal;
  const part = written("stored", journal);
  const recovered = part.recover(true);
  insertText(part.editor, "new ");
  read(entry);
  await recovered;
  expect(plainText(part.content())).toContain("new");
  expect(part.kept?.content).toEqual(entry.content);
});

it("is no conflict if the engine has an earlier save whose response was lost", async () => {
  const part = written("one");
  const typed = (text: string) => {
    insertText(part.editor, text);
    part.saver.edited();
  };
  typed("two ");
  const early = part.content();
  answer = () => Promise.reject(new ApiProblem(0, "timeout", ""));
  await expect(part.saver.flush()).rejects.toThrow();
  typed("three ");
  answer = () => Promise.resolve();
  expect(part.isStored(early)).toBe(true);
  part.take(early); // the page as it is after a reload
  expect([part.theirs, part.saver.dirty, plainText(part.content())]).toEqual([
    null,
    true,
    expect.stringContaining("three"),
  ]);
  await part.saver.flush();
  expect(part.saver.saving.phase).toBe("saved");
});

it("is saved if another window has restored the earlier text", async () => {
  const part = written("one");
  insertText(part.editor, "two ");
  part.saver.edited();
  await part.saver.flush();
  const ours = part.content();
  part.take(fromText("theirs"));
  part.take(ours);
  expect(part.content()).toEqual(ours);
});
