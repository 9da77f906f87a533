import { expect, it } from "vitest";
import { EditHistory } from "./history.svelte";

const NOWHERE = { start: 0, end: 0 };

function insert(history: EditHistory, file: string, before: string, text: string): void {
  const content = history.textOf(file, before);
  content.change([{ from: 0, to: 0, insert: text }], NOWHERE, NOWHERE);
}

it("undo goes back over the files in the order of their steps", () => {
  const history = new EditHistory();
  insert(history, "a.yaml", "a", "1");
  insert(history, "codes/t.csv", "t", "2");
  insert(history, "a.yaml", "1a", "3");
  const undone = [];
  for (let file = history.last; file !== null; file = history.last) {
    const content = history.textOf(file, { "a.yaml": "31a", "codes/t.csv": "2t" }[file] ?? "");
    history.noteUndo(file, content.undo() !== null);
    undone.push(file);
    if (undone.length === 1) break; // the text of the first file is another one now
  }
  expect(undone).toEqual(["a.yaml"]);
  expect([history.last, history.next]).toEqual(["codes/t.csv", "a.yaml"]);
  history.noteUndo("codes/t.csv", history.textOf("codes/t.csv", "2t").undo() !== null);
  expect([history.last, history.next]).toEqual(["a.yaml", "codes/t.csv"]);
  history.noteRedo("codes/t.csv", history.textOf("codes/t.csv", "t").redo() !== null);
  expect([history.last, history.next]).toEqual(["codes/t.csv", "a.yaml"]);
});

it("a new step ends redo, and letters typed together are one step", () => {
  const history = new EditHistory();
  insert(history, "a.yaml", "a", "1");
  history.noteUndo("a.yaml", history.textOf("a.yaml", "1a").undo() !== null);
  const content = history.textOf("a.yaml", "a");
  content.typed("ab", { start: 1, end: 1 }, 2);
  content.typed("abc", { start: 2, end: 2 }, 3);
  expect([history.last, history.next]).toEqual(["a.yaml", null]);
  history.noteUndo("a.yaml", content.undo() !== null);
  expect([history.last, content.text]).toEqual([null, "a"]);
});

it("a text that was replaced by something else has no steps", () => {
  const history = new EditHistory();
  insert(history, "a.yaml", "a\r\nb", "1");
  expect(history.textOf("a.yaml", "1a\r\nb").text).toBe("1a\nb");
  expect(history.last).toBe("a.yaml");
  expect(history.textOf("a.yaml", "other").text).toBe("other");
  expect(history.last).toBeNull();
});
