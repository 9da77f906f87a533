// @vitest-environment node
import { describe, expect, it } from "vitest";
import * as commands from "./commands";
import { EditorText, type Selection } from "./editorText.svelte";

/** A text with `⟦` and `⟧` around what is selected, or `|` at the caret, after a command. */
function after(
  marked: string,
  command: (text: string, selection: Selection) => commands.Action | null,
): string | null {
  const start = marked.search(/[|⟦]/);
  const end = marked.includes("⟧") ? marked.indexOf("⟧") - 1 : start;
  const content = new EditorText(marked.replace(/[|⟦⟧]/g, ""));
  const action = command(content.text, { start, end });
  if (!action) return null;
  content.change(action.edits, { start, end }, action.selection);
  const { start: from, end: to } = action.selection;
  const { text } = content;
  if (from === to) return `${text.slice(0, from)}|${text.slice(from)}`;
  return `${text.slice(0, from)}⟦${text.slice(from, to)}⟧${text.slice(to)}`;
}

describe("the keys of the editor", () => {
  it("start a line with the same indentation, and open brackets", () => {
    expect(after("tags:\n  A: 1|", commands.newLine)).toBe("tags:\n  A: 1\n  |");
    expect(after("A: {|}", commands.newLine)).toBe("A: {\n  |\n}");
    expect(after("  a: b⟦c⟧d", commands.newLine)).toBe("  a: b\n  |d");
    expect(after("  a: |b\nc", commands.lineBelow)).toBe("  a: b\n  |\nc");
  });

  it("indent and comment the selected lines", () => {
    expect(after("a\n|b", commands.indentMore)).toBe("a\n  |b");
    expect(after("⟦a\n\nb⟧\nc", commands.indentMore)).toBe("  ⟦a\n\n  b⟧\nc");
    expect(after("  ⟦a\n b⟧", commands.indentLess)).toBe("⟦a\nb⟧");
    expect(after("  a: |b", commands.toggleComment)).toBe("  # a: |b");
    expect(after("⟦# a\n\n#b⟧", commands.toggleComment)).toBe("⟦a\n\nb⟧");
  });

  it("move, copy and delete lines", () => {
    const up = (text: string, here: Selection) => commands.moveLines(text, here, -1);
    const down = (text: string, here: Selection) => commands.moveLines(text, here, 1);
    expect(after("a\nb|b\nc", up)).toBe("b|b\na\nc");
    expect(after("a\nb|b\nc", down)).toBe("a\nc\nb|b");
    expect(after("⟦a\nb\n⟧c\nd", down)).toBe("c\n⟦a\nb\n⟧d");
    expect(after("|a\nb", up)).toBeNull();
    expect(after("a\nb|", down)).toBeNull();
    expect(after("a|a\nb", (text, here) => commands.copyLines(text, here, 1))).toBe("aa\na|a\nb");
    expect(after("a|a\nb", (text, here) => commands.copyLines(text, here, -1))).toBe("a|a\naa\nb");
    expect(after("a\nbb|b\ncccc", commands.deleteLines)).toBe("a\ncc|cc");
    expect(after("a\nb|", commands.deleteLines)).toBe("a|");
    expect(after("|", commands.deleteLines)).toBe("|");
  });

  it("close brackets and quotation marks, and type over them", () => {
    const type = (sign: string) => (text: string, here: Selection) =>
      commands.typeBracket(text, here, sign);
    expect(after("a: |", type("{"))).toBe("a: {|}");
    expect(after("a: {|}", type("}"))).toBe("a: {}|");
    expect(after("a: ⟦b⟧", type('"'))).toBe('a: "⟦b⟧"');
    expect(after("it|", type("'"))).toBeNull();
    expect(after("a: |b", type("["))).toBeNull();
    expect(after("a: {|}", commands.deletePair)).toBe("a: |");
    expect(after("a: |}", commands.deletePair)).toBeNull();
  });

  it("find the partner of a bracket", () => {
    expect(commands.matchingBrackets("a: {b: [c]}", 4)).toEqual([3, 10]);
    expect(commands.matchingBrackets("a: {b: [c]}", 10)).toEqual([9, 7]);
    expect(commands.matchingBrackets("a: {b: [c}", 4)).toBeNull();
    expect(commands.matchingBrackets("abc", 1)).toBeNull();
  });
});
