import { fireEvent, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { expect, it, vi } from "vitest";
import CodeEditor from "./CodeEditor.svelte";

const FILE = "# One.\n# Two.\n# Three.\nkind: orders\naccept:\n  senders: []\n";

async function opened(file = "a.yaml", readonly = false) {
  const onchange = vi.fn<(text: string) => void>();
  const { container } = render(CodeEditor, { file, text: FILE, label: "Text", readonly, onchange });
  const area = screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Text" });
  await tick();
  area.focus();
  const lines = () =>
    [...container.querySelectorAll("[data-line]")].map((line) => line.textContent);
  const select = (start: number, end = start) => area.setSelectionRange(start, end);
  const press = (key: string, more: KeyboardEventInit = {}) =>
    fireEvent.keyDown(area, { key, ...more });
  return { area, container, lines, select, press, onchange };
}
const MOD = { ctrlKey: true };

it("opens with its comments folded, and shows the same lines in the field and above it", async () => {
  const { area, container, lines } = await opened();
  expect(area.value).toBe("# One.\nkind: orders\naccept:\n  senders: []\n");
  expect(lines().join("\n")).toBe(area.value);
  const numbers = [...container.querySelectorAll(".line-number")].map((node) => node.textContent);
  expect(numbers).toEqual(["1", "4", "5", "6", "7"]);
});

it("keys fold and unfold the line of the caret", async () => {
  const { area, select, press, lines, onchange } = await opened();
  select(area.value.indexOf("accept"));
  await press("{", { ...MOD, shiftKey: true, code: "BracketLeft" });
  expect(lines()).toEqual(["# One.", "kind: orders", "accept:", ""]);
  await press("}", { ...MOD, shiftKey: true, code: "BracketRight" });
  expect(lines()).toContain("  senders: []");
  await press("]", { ...MOD, altKey: true, code: "BracketRight" });
  expect(area.value).toBe(FILE);
  expect(onchange).not.toHaveBeenCalled();
});

it("Tab indents, and leaves the editor after Escape", async () => {
  const { area, select, press, onchange } = await opened();
  select(area.value.indexOf("kind"));
  expect(await press("Tab")).toBe(false);
  expect(onchange).toHaveBeenLastCalledWith(FILE.replace("kind", "  kind"));
  await press("Escape");
  expect(await press("Tab")).toBe(true);
  expect(await press("z", MOD)).toBe(false);
  expect(onchange).toHaveBeenLastCalledWith(FILE);
});

it("a copy of a folded line has the lines that are folded", async () => {
  const { area, select } = await opened();
  select(0, area.value.indexOf("kind"));
  const clipboardData = { setData: vi.fn() };
  await fireEvent.copy(area, { clipboardData });
  expect(clipboardData.setData).toHaveBeenCalledWith("text/plain", "# One.\n# Two.\n# Three.\n");
});

it("a copy or cut without a selection has the whole line", async () => {
  const { area, select, onchange } = await opened();
  select(area.value.indexOf("accept") + 3);
  const clipboardData = { setData: vi.fn() };
  await fireEvent.copy(area, { clipboardData });
  expect(clipboardData.setData).toHaveBeenLastCalledWith("text/plain", "accept:\n");
  expect(onchange).not.toHaveBeenCalled();
  await fireEvent.cut(area, { clipboardData });
  expect(clipboardData.setData).toHaveBeenLastCalledWith("text/plain", "accept:\n");
  expect(onchange).toHaveBeenLastCalledWith(FILE.replace("accept:\n", ""));
});

it("a file that may not be changed takes no change", async () => {
  const { area, select, press, onchange } = await opened("a.yaml", true);
  select(3);
  await press("Tab");
  await press("k", { ...MOD, shiftKey: true });
  expect(area.readOnly).toBe(true);
  expect(onchange).not.toHaveBeenCalled();
});
