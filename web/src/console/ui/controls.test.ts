import { fireEvent, render, screen } from "@testing-library/svelte";
import { createRawSnippet, tick } from "svelte";
import { expect, it, vi } from "vitest";
import Button from "./Button.svelte";
import Combobox from "./Combobox.svelte";
import Listbox from "./Listbox.svelte";
import { matching } from "./listbox";
import Menu from "./Menu.svelte";
import Tabs from "./Tabs.svelte";
import TextField from "./TextField.svelte";
import Tree from "./tree/Tree.svelte";
import { toast, toasts } from "./toasts.svelte";
import Toasts from "./Toasts.svelte";

const text = (words: string) => createRawSnippet(() => ({ render: () => `<span>${words}</span>` }));
const press = (key: string, more: object = {}) =>
  fireEvent.keyDown(document.activeElement ?? document.body, { key, ...more });
const hidden = { hidden: true }; // jsdom does not open popovers

it("a button is busy while its action runs, keeps its name, and runs it once", async () => {
  let end: () => void = () => undefined;
  const onclick = vi.fn(() => new Promise<void>((resolve) => (end = resolve)));
  render(Button, { onclick, children: text("Save") });
  const button = screen.getByRole("button", { name: "Save" });
  await fireEvent.click(button);
  await fireEvent.click(button);
  expect(button.getAttribute("aria-busy")).toBe("true");
  expect(onclick).toHaveBeenCalledTimes(1);
  end();
  await vi.waitFor(() => expect(button.hasAttribute("aria-busy")).toBe(false));
});

it("a field names its control and says its error", () => {
  render(TextField, { label: "Port", value: "x", error: "A number, please." });
  const input = screen.getByRole("textbox", { name: "Port", description: "A number, please." });
  expect(input.getAttribute("aria-invalid")).toBe("true");
});

it("a menu opens with an arrow, moves, jumps to a letter, and gives the focus back", async () => {
  const run = vi.fn();
  render(Menu, {
    label: "Actions",
    items: [
      { id: "replay", title: "Replay", run },
      { id: "skip", title: "Skip", unavailable: "It was applied." },
      { id: "export", title: "Export", items: [{ id: "raw", title: "Raw HL7", run }] },
    ],
  });
  const opener = screen.getByRole("button", { name: "Actions" });
  opener.focus();
  await press("ArrowDown");
  await vi.waitFor(() => expect(document.activeElement?.textContent).toContain("Replay"));
  await press("ArrowDown");
  await press("Enter");
  expect(document.activeElement?.getAttribute("aria-disabled")).toBe("true");
  await press("e");
  expect(document.activeElement?.textContent).toContain("Export");
  await press("ArrowRight");
  await vi.waitFor(() => expect(document.activeElement?.textContent).toContain("Raw HL7"));
  await press("ArrowLeft");
  expect(document.activeElement?.textContent).toContain("Export");
  await press("Escape");
  await tick();
  expect(screen.queryByRole("menu", hidden)).toBeNull();
  expect(document.activeElement).toBe(opener);
});

const GROUPS = [
  {
    id: "a",
    title: "Pages",
    items: [
      { id: "m", title: "Messages" },
      { id: "d", title: "Deliveries" },
    ],
  },
  { id: "b", title: "Connections", items: [{ id: "r", title: "ris-a", aliases: ["channel"] }] },
];

it("a list finds by title, part of a word, letters and alias", () => {
  const ids = (query: string) =>
    matching(GROUPS, query).flatMap((group) => group.items.map((i) => i.id));
  expect(ids("mes")).toEqual(["m"]);
  expect(ids("dlv")).toEqual(["d"]);
  expect(ids("channel")).toEqual(["r"]);
  expect(ids("")).toEqual(["m", "d", "r"]);
});

it("a list moves its choice while the focus stays in its field", async () => {
  const onpick = vi.fn();
  render(Listbox, { label: "Commands", groups: GROUPS, onpick });
  const input = screen.getByRole("combobox", { name: "Commands" });
  const chosen = () => document.getElementById(input.getAttribute("aria-activedescendant") ?? "");
  expect(chosen()?.textContent).toContain("Messages");
  await fireEvent.keyDown(input, { key: "ArrowUp" });
  expect(chosen()?.textContent).toContain("ris-a");
  await fireEvent.input(input, { target: { value: "del" } });
  expect(screen.getAllByRole("option")).toHaveLength(1);
  await fireEvent.keyDown(input, { key: "Enter", ctrlKey: true });
  expect(onpick).toHaveBeenCalledWith({ id: "d", title: "Deliveries" }, { newTab: true });
});

it("a combobox with several values shows them as chips", async () => {
  const onchange = vi.fn();
  render(Combobox, {
    label: "Sites",
    multiple: true,
    options: [
      { id: "1", title: "North" },
      { id: "2", title: "South" },
    ],
    value: ["1"],
    onchange,
  });
  await fireEvent.click(screen.getByRole("button", { name: "Sites" }));
  await fireEvent.click(screen.getByRole("option", { name: "South", ...hidden }));
  expect(onchange).toHaveBeenLastCalledWith(["1", "2"]);
  await fireEvent.click(screen.getByRole("button", { name: "Remove North" }));
  expect(onchange).toHaveBeenLastCalledWith(["2"]);
});

it("tabs follow the arrows and have one tab stop", async () => {
  const onchange = vi.fn();
  const tabs = ["one", "two", "three"].map((id) => ({ id, label: id }));
  render(Tabs, { tabs, value: "one", label: "Parts", onchange });
  screen.getByRole("tab", { name: "one" }).focus();
  await press("ArrowLeft");
  expect(onchange).toHaveBeenLastCalledWith("three");
  expect(document.activeElement?.textContent?.trim()).toBe("three");
  await press("Home");
  expect(onchange).toHaveBeenLastCalledWith("one");
  expect(screen.getAllByRole("tab").filter((tab) => tab.tabIndex === 0)).toHaveLength(1);
});

it("a tree opens, closes, moves to the parent, and jumps to a name", async () => {
  const leaf = (id: string) => ({ id, name: id, children: [] });
  const roots = [{ id: "PID", name: "PID", children: [leaf("PID-3"), leaf("PID-5")] }, leaf("OBR")];
  const [onopen, onactive] = [vi.fn(), vi.fn()];
  const cell = createRawSnippet<[{ id: string }]>((node) => ({
    render: () => `<span>${node().id}</span>`,
  }));
  const shown = render(Tree, {
    roots,
    label: "Message",
    open: new Set<string>(),
    active: "PID",
    onopen,
    onactive,
    cell,
  });
  const tree = screen.getByRole("tree", { name: "Message" });
  expect(screen.getAllByRole("treeitem")).toHaveLength(2);
  await fireEvent.keyDown(tree, { key: "ArrowRight" });
  expect([...(onopen.mock.lastCall?.[0] as Set<string>)]).toEqual(["PID"]);
  await shown.rerender({ open: new Set(["PID"]), active: "PID-5" });
  expect(screen.getAllByRole("treeitem")).toHaveLength(4);
  await fireEvent.keyDown(tree, { key: "ArrowLeft" });
  expect(onactive).toHaveBeenLastCalledWith("PID");
  await fireEvent.keyDown(tree, { key: "o" });
  expect(onactive).toHaveBeenLastCalledWith("OBR");
});

it("a success goes by itself, an error stays and alerts", async () => {
  vi.useFakeTimers();
  render(Toasts);
  toast({ text: "Saved" });
  toast({ text: "Unreachable", tone: "red" });
  await tick();
  expect(screen.getByRole("alert").textContent).toContain("Unreachable");
  vi.advanceTimersByTime(6000);
  await tick();
  expect(toasts.list.map((one) => one.text)).toEqual(["Unreachable"]);
});
