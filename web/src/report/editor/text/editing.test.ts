import type { Editor } from "@tiptap/core";
import { afterEach, describe, expect, it } from "vitest";
import { t } from "../../../shared/i18n";
import { allStops, choices, neighbour } from "./brackets";
import { kindAt, toggleKind, type LineKind } from "./blocks";
import {
  bracketBy,
  insertChoice,
  insertDocument,
  insertPhrase,
  insertText,
  rangeOf,
  replaceAll,
  select,
  settle,
} from "./commands";
import { fromEditor } from "./conversion";
import { canonical, fromText, plainText, type Block, type ReportDocument } from "./document";
import { createEditor, goBack } from "./editor";
import { macroBefore, type Macro } from "./macros";
import { cleanPasted } from "./pasting";

// jsdom has no layout, but scrolling to the selection reads rectangles.

let editor: Editor | undefined;
afterEach(() => editor?.destroy());

const doc = (...content: Block[]): ReportDocument => ({ type: "doc", content });
const open = (document: ReportDocument, macros: Macro[] = []): Editor => {
  editor = createEditor({
    place: document_(),
    document,
    editable: true,
    attributes: {},
    macros: () => macros,
    onEdit: () => undefined,
    onSelect: () => undefined,
  });
  return editor;
};
const document_ = () => document.body.appendChild(document.createElement("div"));
const text = (of: Editor) => plainText(fromEditor(of.state.doc));
const selected = (of: Editor) =>
  of.state.doc.textBetween(of.state.selection.from, of.state.selection.to);
const press = (of: Editor, key: string, more: KeyboardEventInit = {}) =>
  of.view.someProp("handleKeyDown", (handle) =>
    handle(of.view, new KeyboardEvent("keydown", { key, ...more })),
  );

const EVERYTHING = doc(
  { type: "section", title: "Findings" },
  {
    type: "paragraph",
    content: [
      { type: "text", text: "Nodule of " },
      { type: "field", label: "size", value: "" },
      { type: "field", label: "size", value: "4" },
      { type: "field", label: "margin", value: "Smooth.", default: "Smooth." },
      { type: "field", label: "side", value: "left", default: "right" },
      { type: "text", text: " mm", marks: ["bold", "suggested"] },
    ],
  },
  { type: "paragraph", content: [] },
  { type: "list", ordered: true, items: [[{ type: "text", text: "one" }], []] },
  { type: "list", ordered: false, items: [[{ type: "field", label: "", value: "" }]] },
);

const words = (text: string) => ({ type: "text" as const, text });
const line = (text: string) => ({ type: "paragraph" as const, content: text ? [words(text)] : [] });
const NESTED = doc(
  {
    type: "list",
    ordered: false,
    items: [
      [words("a"), { type: "list", ordered: true, items: [[words("b")], [words("c")]] }],
      [words("d")],
    ],
  },
  {
    type: "table",
    content: [
      {
        type: "tableRow",
        content: [
          { type: "tableHeader", content: [line("Node")] },
          { type: "tableHeader", content: [line("mm")] },
        ],
      },
      {
        type: "tableRow",
        content: [
          {
            type: "tableCell",
            content: [line("4R"), { type: "list", ordered: false, items: [[words("new")]] }],
          },
          { type: "tableCell", content: [line("12")] },
        ],
      },
    ],
  },
  line("end"),
);

const at = (of: Editor, wanted: string, offset = 0) => {
  let found = -1;
  of.state.doc.descendants((node, position) => {
    if (node.text === wanted) found = position;
  });
  select(of, { from: found + offset, to: found + offset });
};

describe("a document in the editor", () => {
  it("is unchanged: every block, mark and field", () => {
    expect(canonical(fromEditor(open(EVERYTHING).state.doc))).toBe(canonical(EVERYTHING));
    expect(text(open(doc()))).toBe("");
    expect(canonical(fromEditor(open(NESTED).state.doc))).toBe(canonical(NESTED));
    expect(text(open(NESTED))).toBe("- a\n  1. b\n  2. c\n- d\nNode   mm\n4R     12\n- new\nend");
  });

  it("keeps a field's label while its bracket is typed over", () => {
    const here = open(EVERYTHING);
    bracketBy(here, 1);
    expect(selected(here)).toBe("[size]");
    here.view.dispatch(here.state.tr.insertText("6"));
    const paragraph = fromEditor(here.state.doc).content[1];
    expect(paragraph).toMatchObject({
      content: [{}, { label: "size", value: "6" }, { value: "4" }, {}, {}, {}],
    });
  });
});

describe("brackets", () => {
  it("are selected in turn, in both directions and around the end", () => {
    const here = open(fromText("a [one] b\n[two][three]"));
    const visited: string[] = [];
    for (let count = 0; count < 4; count += 1) {
      bracketBy(here, 1);
      visited.push(selected(here));
    }
    expect(visited).toEqual(["[one]", "[two]", "[three]", "[one]"]);
    bracketBy(here, -1);
    expect(selected(here)).toBe("[three]");
    bracketBy(here, -1);
    expect(selected(here)).toBe("[two]");
  });

  it("are reached by Tab, and without one Tab leaves the text", () => {
    const here = open(fromText("x [y]"));
    expect(press(here, "Tab")).toBe(true);
    expect(selected(here)).toBe("[y]");
    press(here, "Escape");
    expect(press(here, "Tab")).toBeFalsy();
    expect(press(open(fromText("x")), "Tab")).toBeFalsy();
  });

  it("and fields with default text are visited by Tab, until they are changed", () => {
    const run = (label: string, value: string) => {
      return { type: "field" as const, label, value, ...(value ? { default: value } : {}) };
    };
    const here = open(
      doc({
        type: "paragraph",
        content: [
          run("lungs", "Clear."),
          words(" "),
          run("size", ""),
          words(" "),
          run("bones", "Intact."),
        ],
      }),
    );
    const visited = Array.from({ length: 4 }, () => (press(here, "Tab"), selected(here)));
    expect(visited).toEqual(["Clear.", "[size]", "Intact.", "[size]"]);
    here.view.dispatch(here.state.tr.insertText("4 mm"));
    press(here, "Tab");
    expect(selected(here)).toBe("Intact.");
    here.view.dispatch(here.state.tr.insertText("Fracture."));
    expect(press(here, "Tab")).toBeFalsy();
    press(here, "Tab", { shiftKey: true });
    expect(selected(here)).toBe("Clear.");
    expect(text(here)).toBe("Clear. 4 mm Fracture.");
  });

  it("keep their field when a choice fills them", () => {
    const field = { type: "field" as const, label: "left / right", value: "" };
    const here = open(doc({ type: "paragraph", content: [field, words(" lung")] }));
    bracketBy(here, 1);
    insertChoice(here, "right");
    expect(fromEditor(here.state.doc).content[0]).toMatchObject({
      content: [{ type: "field", label: "left / right", value: "right" }, {}],
    });
    expect(here.state.selection.empty).toBe(true);
  });

  it("are marked when they are typed, and not after they are filled", () => {
    const here = open(fromText("a\nb [c]"));
    expect(here.view.dom.querySelectorAll(".bracket")).toHaveLength(1);
    select(here, { from: 2, to: 2 });
    here.view.dispatch(here.state.tr.insertText(" [new]"));
    expect(here.view.dom.querySelectorAll(".bracket")).toHaveLength(2);
    bracketBy(here, 1);
    here.view.dispatch(here.state.tr.insertText("z"));
    expect(here.view.dom.querySelectorAll(".bracket")).toHaveLength(1);
  });

  it("and default text are two kinds with names, and only the template decides", () => {
    const field = (label: string, value: string, given = "") => {
      return { type: "field" as const, label, value, ...(given ? { default: given } : {}) };
    };
    const here = open(
      doc({
        type: "paragraph",
        content: [
          words("[Unremarkable.] \uff3b結節を記述\uff3d "),
          field("Unremarkable.", ""),
          words(" "),
          field("肺", "清明。", "清明。"),
          words(" "),
          field("side", "left", "right"),
          words(" "),
          field("x", "[Describe.]", "[Describe.]"),
        ],
      }),
    );
    const named = (kind: string) =>
      Array.from(here.view.dom.querySelectorAll(kind), (element) => [
        element.textContent,
        element.getAttribute("title"),
        element.getAttribute("role"),
      ]);
    expect(named(".bracket").map(([shown]) => shown)).toEqual([
      ...["[Unremarkable.]", "\uff3b結節を記述\uff3d", "[Unremarkable.]", "[Describe.]"],
    ]);
    expect(named(".bracket")[0]?.[1]).toBe(t("editor.request", { label: "Unremarkable." }));
    expect(named(".default-text")).toEqual([
      ["清明。", t("editor.default_text", { label: "肺" }), "group"],
    ]);
    select(here, { from: here.state.doc.content.size - 1, to: here.state.doc.content.size - 1 });
    at(here, "清明。", 1);
    here.view.dispatch(here.state.tr.insertText("x"));
    expect(named(".default-text")).toEqual([]);
  });

  it("offer the choices of their label", () => {
    expect(choices("[left / right]")).toEqual(["left", "right"]);
    expect(choices("[mm/cm]")).toEqual([]);
    expect(neighbour([], { from: 0, to: 0 }, 1)).toBeUndefined();
    expect(allStops(open(fromText("no [unclosed")).state.doc)).toEqual([]);
  });
});

describe("macros", () => {
  const macro = (trigger: string, value: string): Macro => {
    return { trigger, name: "", document: fromText(value), own: false };
  };
  const MACROS = [macro(".nl", "Lungs [side] clear."), macro("nlchest", "A\nB")];

  it("match as a separate word before the caret, the longest first", () => {
    expect(macroBefore("see .nl", MACROS)?.trigger).toBe(".nl");
    expect(macroBefore("x.nl", MACROS)).toBeUndefined();
    const both = [macro("l", ""), macro(" l", ""), macro(".l", "")];
    expect(macroBefore(".l", both)?.trigger).toBe(".l");
  });

  it("are expanded by Tab, or by a space after a symbol, to their first bracket", () => {
    const here = open(fromText(".nl"), MACROS);
    select(here, { from: 4, to: 4 });
    expect(press(here, " ")).toBe(true);
    expect(text(here)).toBe("Lungs [side] clear.");
    expect(selected(here)).toBe("[side]");
    const other = open(fromText("nlchest"), MACROS);
    select(other, { from: 8, to: 8 });
    expect(press(other, " ")).toBeFalsy();
    expect(press(other, "Tab")).toBe(true);
    expect(text(other)).toBe("A\nB");
  });

  it.each([
    ["Lungs clear.", "Lungs clear. |"],
    ["A\nB", "A\nB |"],
    ["ends with a space ", "ends with a space |"],
    ["", "|"],
  ])("keep the space that expanded them: %j", (value, wanted) => {
    const here = open(fromText(".x"), [macro(".x", value)]);
    select(here, { from: 3, to: 3 });
    press(here, " ");
    here.view.dispatch(here.state.tr.insertText("|"));
    expect(text(here)).toBe(wanted);
    const tabbed = open(fromText(".x"), [macro(".x", value)]);
    select(tabbed, { from: 3, to: 3 });
    press(tabbed, "Tab");
    expect(text(tabbed)).toBe(value);
  });
});

describe("lines", () => {
  const kinds = (of: Editor) => fromEditor(of.state.doc).content.map((block) => block.type);

  it("change to headings, lists and back, and keep text and caret", () => {
    const here = open(fromText("one\ntwo\nthree"));
    select(here, { from: 1, to: 9 });
    const apply = (kind: LineKind) => here.view.dispatch(toggleKind(here.state, kind));
    apply("bulletList");
    expect(kinds(here)).toEqual(["list", "paragraph"]);
    expect(text(here)).toBe("- one\n- two\nthree");
    expect(selected(here)).toBe("onetwo");
    apply("bulletList");
    expect(text(here)).toBe("one\ntwo\nthree");
    apply("section");
    expect(kinds(here)).toEqual(["section", "section", "paragraph"]);
    goBack(here);
    expect(kinds(here)).toEqual(["paragraph", "paragraph", "paragraph"]);
  });

  it("leave a list from its middle by Enter on an empty item", () => {
    const here = open(doc({ type: "list", ordered: false, items: [[], []] }));
    select(here, { from: 2, to: 2 });
    press(here, "Enter");
    expect(kinds(here)).toEqual(["paragraph", "list"]);
    expect(kindAt(here.state)).toBe("paragraph");
  });

  it("of a list are indented and outdented with their sublists", () => {
    const here = open(NESTED);
    const shift = { shiftKey: true, altKey: true };
    at(here, "d");
    press(here, "ArrowRight", shift);
    expect(text(here)).toMatch(/^- a\n {2}1\. b\n {2}2\. c\n {2}- d\n/);
    press(here, "ArrowLeft", shift);
    expect(canonical(fromEditor(here.state.doc))).toBe(canonical(NESTED));
    expect(press(here, "ArrowLeft", shift)).toBeFalsy();
    at(here, "c");
    press(here, "Backspace");
    expect(text(here)).toMatch(/^- a\n {2}1\. b\n1\. c\n- d\n/);
    press(here, "Backspace");
    expect(text(here)).toMatch(/^- a\n {2}1\. b\nc\n- d\n/);
    press(here, "Backspace");
    expect(text(here)).toMatch(/^- a\n {2}1\. bc\n- d\n/);
    at(here, "bc", 2);
    press(here, "Delete");
    expect(text(here)).toMatch(/^- a\n {2}1\. bcd\nNode/);
  });

  it("of a list are split by Enter, and an empty one is outdented", () => {
    const here = open(NESTED);
    at(here, "c", 1);
    press(here, "Enter");
    here.view.dispatch(here.state.tr.insertText("x"));
    expect(text(here)).toMatch(/^- a\n {2}1\. b\n {2}2\. c\n {2}3\. x\n- d\n/);
    press(here, "Enter");
    press(here, "Enter");
    here.view.dispatch(here.state.tr.insertText("y"));
    expect(text(here)).toMatch(/ {2}3\. x\n1\. y\n- d\n/);
  });

  it("of a table cell change within their cell", () => {
    const here = open(NESTED);
    at(here, "12");
    here.view.dispatch(toggleKind(here.state, "orderedList"));
    expect(kindAt(here.state)).toBe("orderedList");
    here.view.dispatch(toggleKind(here.state, "section"));
    expect(text(here)).toContain("4R     12");
    here.commands.selectAll();
    here.view.dispatch(toggleKind(here.state, "bulletList"));
    expect(text(here)).toMatch(/Node {3}mm\n4R {5}12\n- new\n- end$/);
  });

  it("continue as a paragraph below a heading", () => {
    const here = open(doc({ type: "section", title: "Findings" }));
    select(here, { from: 9, to: 9 });
    press(here, "Enter");
    here.view.dispatch(here.state.tr.insertText("x"));
    expect(kinds(here)).toEqual(["section", "paragraph"]);
    expect(text(here)).toBe("Findings\nx");
  });
});

describe("inserted content", () => {
  it("is plain text, also if it looks like markup", () => {
    const here = open(fromText("ab"));
    select(here, { from: 2, to: 2 });
    insertText(here, "<b>1</b>\n<i>2");
    expect(text(here)).toBe("a<b>1</b>\n<i>2b");
  });

  it("goes into list items and table cells line by line", () => {
    const here = open(NESTED);
    at(here, "c", 1);
    insertText(here, " one\ntwo");
    expect(text(here)).toMatch(/^- a\n {2}1\. b\n {2}2\. c one\n[^]*two\n[^]*- d\n/);
    const other = open(NESTED);
    at(other, "12", 2);
    insertText(other, " mm\nnew");
    expect(text(other)).toContain("4R     12 mm\n- new  new\nend");
    const table = fromEditor(other.state.doc).content[1];
    expect(table).toMatchObject({ type: "table", content: [{}, { content: [{}, {}] }] });
  });

  it("is unchanged when it is copied within the text", () => {
    const here = open(NESTED);
    here.commands.selectAll();
    const { dom } = here.view.serializeForClipboard(here.state.selection.content());
    here.view.pasteHTML(dom.innerHTML, new Event("paste") as ClipboardEvent);
    expect(canonical(fromEditor(here.state.doc))).toBe(canonical(NESTED));
  });

  it("can be undone and redone by keys, also with Caps Lock", () => {
    const here = open(fromText("mine"));
    replaceAll(here, fromText("theirs"));
    const key = (letter: string, shiftKey = false) =>
      press(here, letter, { ctrlKey: true, shiftKey });
    key("Z");
    expect(text(here)).toBe("mine");
    key("Y");
    expect(text(here)).toBe("theirs");
    key("z");
    key("z", true);
    expect(text(here)).toBe("theirs");
  });

  it("can be undone as one step", () => {
    const here = open(fromText("mine"));
    replaceAll(here, fromText("theirs"));
    expect(text(here)).toBe("theirs");
    goBack(here);
    expect(text(here)).toBe("mine");
    insertDocument(here, EVERYTHING);
    goBack(here);
    expect(text(here)).toBe("mine");
  });

  it("is reduced to the elements of a report when it is pasted", () => {
    const html =
      '<script>alert(1)</script><ul><li><p>a</p><ul><li>b</li></ul></li></ul><p>c<br>d<img src="x"></p>';
    expect(cleanPasted(html)).toBe("<ul><li>a<ul><li>b</li></ul></li></ul><p>c</p><p>d</p>");
  });

  it("is kept or removed if it is a suggestion", () => {
    const suggested = doc(
      { type: "paragraph", content: [{ type: "text", text: "Lungs: clear." }] },
      { type: "paragraph", content: [{ type: "text", text: "Nodule.", marks: ["suggested"] }] },
    );
    const here = open(suggested);
    settle(here, true);
    expect(canonical(fromEditor(here.state.doc))).toBe(
      canonical(fromText("Lungs: clear.\nNodule.")),
    );
    const other = open(suggested);
    settle(other, false);
    expect(text(other)).toBe("Lungs: clear.");
  });

  it("has the positions of findings", () => {
    const here = open(EVERYTHING);
    const named = (block: number, item: number | null, start: number, end: number) => {
      const range = rangeOf(here.state.doc, { block, item, start, end });
      return range && here.state.doc.textBetween(range.from, range.to);
    };
    expect(named(1, null, 10, 16)).toBe("[size]");
    expect(named(3, 0, 1, 3)).toBe("ne");
    expect(named(9, null, 0, 1)).toBeNull();
    const nested = open(NESTED).state.doc;
    const inside = (block: number, item: number, end: number) => {
      const range = rangeOf(nested, { block, item, start: 0, end });
      return range && nested.textBetween(range.from, range.to);
    };
    expect([inside(0, 2, 1), inside(0, 3, 1)]).toEqual(["c", "d"]);
    expect([inside(1, 3, 3), inside(1, 4, 2)]).toEqual(["new", "12"]);
  });
});

/** Types characters as the browser reports them. */
function type(of: Editor, words: string): void {
  for (const word of words) {
    if (word === " " && press(of, " ")) continue;
    const { from, to } = of.state.selection;
    const handled = of.view.someProp("handleTextInput", (handle) =>
      handle(of.view, from, to, word, () => of.state.tr),
    );
    if (!handled) of.view.dispatch(of.state.tr.insertText(word, from, to));
  }
}

const kinds = (of: Editor) => fromEditor(of.state.doc).content.map((block) => block.type);

describe("a marker at the beginning of a line", () => {
  it.each([
    ["- nodule", "- nodule", "list"],
    ["* nodule", "- nodule", "list"],
    ["• nodule", "- nodule", "list"],
    ["1. nodule", "1. nodule", "list"],
    ["1) nodule", "1. nodule", "list"],
    ["2. nodule", "2. nodule", "paragraph"],
    ["-nodule", "-nodule", "paragraph"],
    ["a - b", "a - b", "paragraph"],
    ["3 - 4", "3 - 4", "paragraph"],
  ])("starts a list: %s", (typed, shown, kind) => {
    const of = open(doc());
    type(of, typed);
    expect(text(of)).toBe(shown);
    expect(kinds(of)[0]).toBe(kind);
  });

  it("continues the list before it, and Enter makes the next item", () => {
    const of = open(doc());
    type(of, "1. a");
    press(of, "Enter");
    type(of, "b");
    press(of, "Enter");
    press(of, "Enter");
    type(of, "3. c");
    expect(text(of)).toBe("1. a\n2. b\n3. c");
    expect(kinds(of)).toEqual(["list"]);
  });

  it("comes back by Backspace or undo", () => {
    for (const back of [(of: Editor) => press(of, "Backspace"), (of: Editor) => goBack(of)]) {
      const of = open(doc());
      type(of, "- ");
      expect(kinds(of)).toEqual(["list"]);
      back(of);
      expect([text(of), kinds(of)]).toEqual(["- ", ["paragraph"]]);
      type(of, "x");
      expect(text(of)).toBe("- x");
      of.destroy();
    }
  });

  it("stays text in a heading and in an item", () => {
    const of = open(doc({ type: "list", ordered: false, items: [[]] }));
    type(of, "1. a");
    expect(text(of)).toBe("- 1. a");
    showSection(of);
    type(of, "- b");
    expect(kinds(of)).toEqual(["section"]);
  });
});

function showSection(of: Editor): void {
  replaceAll(of, doc({ type: "section", title: "" }));
  select(of, { from: 1, to: 1 });
}

describe("inserted text", () => {
  const at = (line: string): Editor => {
    const caret = line.indexOf("|");
    const bracket = /\[[^[\]]*\]/.exec(line);
    const of = open(fromText(line.replace("|", "")));
    const from = 1 + (bracket ? bracket.index : caret);
    select(of, { from, to: bracket ? from + bracket[0].length : from });
    return of;
  };

  it.each([
    ["Nodule [size] mm.", "8.2 mm", "Nodule 8.2 mm."],
    ["Nodule [size]mm.", "8.2 mm", "Nodule 8.2 mm."],
    ["Cyst [size] cm, simple.", "11 mm", "Cyst 11 mm, simple."],
    ["Volume [v] cm³.", "3.4 cm³", "Volume 3.4 cm³."],
    ["Density [d] HU", "-35 HU", "Density -35 HU"],
    ["Nodule [size] mm.", "8.2", "Nodule 8.2 mm."],
    ["Nodule [size] margins.", "8 mm", "Nodule 8 mm margins."],
    ["Nodule [size] mmHg", "8", "Nodule 8 mmHg"],
    ["Nodule [text] mm", "stable", "Nodule stable mm"],
    ["Size | mm", "8 mm", "Size 8 mm"],
  ])("has one unit: %s + %s", (line, inserted, expected) => {
    const of = at(line);
    insertText(of, inserted);
    expect(text(of)).toBe(expected);
  });

  it.each([
    ["|", "Comparison: CT."],
    ["Stable nodule.|", "Stable nodule. Comparison: CT."],
    ["Stable nodule. |", "Stable nodule. Comparison: CT."],
    ["Stable nodule|", "Stable nodule. Comparison: CT."],
    ["Stable (as before)|", "Stable (as before). Comparison: CT."],
    ["Compared with:|", "Compared with: Comparison: CT."],
    ["A.|Next.", "A. Comparison: CT. Next."],
    ["A. | Next.", "A. Comparison: CT. Next."],
  ])("is separated as a sentence: %s", (line, expected) => {
    const of = at(line);
    insertPhrase(of, "Comparison: CT.", "sentence");
    expect(text(of)).toBe(expected);
  });

  it.each([
    ["結節あり|", "結節あり。比較：CT。"],
    ["結節あり。|次", "結節あり。比較：CT。次"],
  ])("has no spaces between East Asian sentences: %s", (line, expected) => {
    const of = at(line);
    insertPhrase(of, "比較：CT。", "sentence");
    expect(text(of)).toBe(expected);
  });

  it.each([
    ["Nodule|", "Nodule 8 mm"],
    ["Nodule (|)", "Nodule (8 mm)"],
    ["|in size", "8 mm in size"],
    ["Nodule |, stable", "Nodule 8 mm, stable"],
  ])("is separated as words: %s", (line, expected) => {
    const of = at(line);
    insertPhrase(of, "8 mm", "phrase");
    expect(text(of)).toBe(expected);
  });
});

describe("macros", () => {
  const macro = (trigger: string, words: string): Macro => ({
    trigger,
    name: "",
    own: true,
    document: fromText(words),
  });

  it("are found in upper and lower case, and by the same case first", () => {
    const macros = [macro(".CT", "one"), macro(".ct", "two"), macro("Lung", "three")];
    const found = (typed: string) => macroBefore(typed, macros)?.trigger;
    expect(["a .ct", "a .CT", ".Ct", "LUNG", "lung", "xlung"].map(found)).toEqual([
      ".ct",
      ".CT",
      ".CT",
      "Lung",
      "Lung",
      undefined,
    ]);
  });

  it("have headings and lists like templates", () => {
    const of = open(doc(), [
      macro(".r", "FINDINGS:\nNormal [organ].\n- a\n- b\nIMPRESSION: \nNone."),
    ]);
    type(of, ".r ");
    expect(fromEditor(of.state.doc).content.map((block) => block.type)).toEqual([
      ...["section", "paragraph", "list", "section", "paragraph"],
    ]);
    expect(text(of)).toBe("FINDINGS\nNormal [organ].\n- a\n- b\nIMPRESSION\nNone.");
  });

  it("of one line stay text, to write on", () => {
    const of = open(doc(), [macro(".f", "FINDINGS:")]);
    type(of, ".f ");
    expect(text(of)).toBe("FINDINGS: ");
  });
});
