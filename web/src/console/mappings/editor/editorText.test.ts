// @vitest-environment node
import { expect, it } from "vitest";
import { EditorText } from "./editorText.svelte";
import { comments } from "./folding";

const LEAD = "# One.\n# Two.\n# Three.\n";
const at = (offset: number) => ({ start: offset, end: offset });

function folded(): EditorText {
  const content = new EditorText(`${LEAD}kind: orders\n`);
  content.fold(comments(content.text));
  expect(content.visible).toBe("# One.\nkind: orders\n");
  return content;
}

it("what is typed behind a fold goes behind the folded lines", () => {
  const content = folded();
  content.typed("# One.\nkind: orders!\n", at(19), 20);
  expect(content.text).toBe(`${LEAD}kind: orders!\n`);
  expect(content.visible).toBe("# One.\nkind: orders!\n");
});

it("what is typed at the end of a folded line stays before the folded ones", () => {
  const content = folded();
  content.typed("# One!.\nkind: orders\n", at(5), 6);
  content.typed("# One!..\nkind: orders\n", at(7), 8);
  expect(content.text).toBe("# One!..\n# Two.\n# Three.\nkind: orders\n");
  expect(content.visible).toBe("# One!..\nkind: orders\n");
});

it("a key never deletes folded lines: it shows them", () => {
  for (const caret of [6, 7]) {
    const content = folded();
    expect(content.typed("# One.kind: orders\n", at(caret), 6)).toBe(false);
    expect(content.text).toBe(`${LEAD}kind: orders\n`);
    expect(content.visible).toBe(content.text);
  }
});

it("a selection is deleted with the folded lines in it, and undo brings them back", () => {
  const content = folded();
  expect(content.typed("orders\n", { start: 0, end: 13 }, 0)).toBe(true);
  expect(content.text).toBe("orders\n");
  content.undo();
  expect(content.text).toBe(`${LEAD}kind: orders\n`);
});

it("a new line at the end of a folded line shows the others first", () => {
  const content = folded();
  content.typed("# One.\n\nkind: orders\n", at(6), 7);
  expect(content.visible).toBe("# One.\n\n# Two.\n# Three.\nkind: orders\n");
});

it("letters typed without a pause are one step of undo, other changes one each", () => {
  const content = new EditorText("a");
  content.typed("ab", at(1), 2);
  content.typed("abc", at(2), 3);
  content.change([{ from: 0, to: 1, insert: "xy" }], at(3), at(4));
  expect(content.text).toBe("xybc");
  expect(content.undo()).toEqual(at(3));
  expect(content.text).toBe("abc");
  expect(content.undo()).toEqual(at(1));
  expect(content.text).toBe("a");
  expect(content.undo()).toBeNull();
  content.redo();
  content.redo();
  expect(content.text).toBe("xybc");
  expect(content.redo()).toBeNull();
});

it("knows where the same letter was inserted by the caret", () => {
  const content = new EditorText("x: aa\ny: aa");
  content.typed("x: aaa\ny: aa", at(3), 4);
  content.undo();
  expect(content.text).toBe("x: aa\ny: aa");
});

it("a problem moves with its word, and goes when the word is changed", () => {
  const content = new EditorText("kind: order");
  content.problems = [{ from: 6, to: 11, severity: "error", message: "no such kind" }];
  content.change([{ from: 0, to: 0, insert: "# mine\n" }], at(0), at(7));
  expect(content.problems.map(({ from, to }) => content.text.slice(from, to))).toEqual(["order"]);
  content.change([{ from: 14, to: 15, insert: "" }], at(15), at(14));
  expect(content.problems).toEqual([]);
});

it("offsets of both texts belong together", () => {
  const content = folded();
  for (let offset = 0; offset <= content.visible.length; offset += 1)
    expect(content.inVisible(content.inText(offset))).toBe(offset);
  expect(content.inText(6)).toBe(6);
  expect(content.inText(7)).toBe(LEAD.length);
});
