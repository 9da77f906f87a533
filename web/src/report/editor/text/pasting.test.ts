import type { Editor } from "@tiptap/core";
import { afterEach, describe, expect, it } from "vitest";
import { fromEditor } from "./conversion";
import { plainText, type ReportDocument } from "./document";
import { createEditor } from "./editor";

let editor: Editor | undefined;
afterEach(() => editor?.destroy());

/** Pastes markup into an empty text, and returns the document. */
function pasted(html: string): ReportDocument {
  editor?.destroy();
  editor = createEditor({
    place: document.body.appendChild(document.createElement("div")),
    document: { type: "doc", content: [] },
    editable: true,
    attributes: {},
    macros: () => [],
    onEdit: () => undefined,
    onSelect: () => undefined,
  });
  editor.view.pasteHTML(html, new Event("paste") as ClipboardEvent);
  return fromEditor(editor.state.doc);
}
const lines = (html: string) => plainText(pasted(html)).split("\n");
const marks = (html: string) => {
  const [first] = pasted(html).content;
  if (first?.type !== "paragraph") throw new Error("no paragraph");
  return first.content.map((node) => [node.type === "text" ? node.text : "", node]);
};

/** A list paragraph in the clipboard format of Word for Windows. */
const word = (marker: string, text: string, level = 1) =>
  `<p class=MsoListParagraphCxSpMiddle style='text-indent:-18.0pt;mso-list:l0 level${level} lfo1'>` +
  `<![if !supportLists]><span style='font-family:Symbol'><span style='mso-list:Ignore'>${marker}` +
  `<span style='font:7.0pt "Times New Roman"'>&nbsp;&nbsp;&nbsp; </span></span></span><![endif]>` +
  `<span lang=EN-US>${text}<o:p></o:p></span></p>`;

describe("lists of Word", () => {
  it("become bulleted and numbered lists without Word's bullet characters", () => {
    const html = `<html><body><!--StartFragment-->${word("·", "one")}\n${word("·", "two")}
      <p class=MsoNormal>between<o:p></o:p></p>${word("1.", "first")}${word("2.", "second")}`;
    expect(lines(html)).toEqual(["- one", "- two", "between", "1. first", "2. second"]);
  });

  it("are nested by their level", () => {
    const html = [
      word("1.", "a"),
      word("a)", "b", 2),
      word("·", "c", 3),
      word("b)", "d", 2),
      word("2.", "e"),
    ].join("");
    expect(lines(html)).toEqual(["1. a", "  1. b", "    - c", "  2. d", "2. e"]);
  });

  it("keep the numbers of a continued list", () => {
    const html = word("1.", "a") + "<p class=MsoNormal>x</p>" + word("2.", "b") + word("3.", "c");
    expect(lines(html)).toEqual(["1. a", "x", "2. b", "3. c"]);
  });

  it("are recognized with a bullet between comments, and by their style", () => {
    const commented =
      "<p class=MsoListParagraph style='mso-list:l1 level1 lfo2'><!--[if !supportLists]-->" +
      "<span>o</span><span>&nbsp; </span><!--[endif]-->item</p>";
    expect(lines(commented)).toEqual(["- item"]);
    const named = "<p class=MsoListNumber>a</p><p class=MsoListNumber2>b</p>";
    expect(lines(named)).toEqual(["1. a", "  1. b"]);
  });

  it("of Word for the web become one list", () => {
    const item = (level: number, text: string) =>
      `<div class="ListContainerWrapper SCXW1"><ul class="BulletListStyle1">` +
      `<li data-aria-level="${level}"><p class="Paragraph"><span>${text}</span></p></li></ul></div>`;
    expect(lines(item(1, "a") + item(2, "b") + item(1, "c"))).toEqual(["- a", "  - b", "- c"]);
  });
});

describe("tables", () => {
  const TABLE = `<table class=MsoTableGrid border=1><thead><tr><td><p class=MsoNormal><b>Node</b></p>
    </td><td><p class=MsoNormal>mm</p></td></tr></thead><tr><td><p>4R</p><ul><li>new</li></ul></td>
    <td>12</td></tr></table>`;

  it("keep their rows and cells; cells hold paragraphs and lists", () => {
    const { content } = pasted(TABLE);
    expect(content[0]).toEqual({
      type: "table",
      content: [
        {
          type: "tableRow",
          content: [
            {
              type: "tableHeader",
              content: [
                { type: "paragraph", content: [{ type: "text", text: "Node", marks: ["bold"] }] },
              ],
            },
            {
              type: "tableHeader",
              content: [{ type: "paragraph", content: [{ type: "text", text: "mm" }] }],
            },
          ],
        },
        {
          type: "tableRow",
          content: [
            {
              type: "tableCell",
              content: [
                { type: "paragraph", content: [{ type: "text", text: "4R" }] },
                { type: "list", ordered: false, items: [[{ type: "text", text: "new" }]] },
              ],
            },
            {
              type: "tableCell",
              content: [{ type: "paragraph", content: [{ type: "text", text: "12" }] }],
            },
          ],
        },
      ],
    });
  });

  it("stay between the lines around them", () => {
    const html = `<p>before</p>${TABLE}<p>after</p>`;
    expect(lines(html)).toEqual(["before", "Node   mm", "4R     12", "- new", "after"]);
  });

  it("replace merged cells by empty cells", () => {
    const html =
      "<table><tr><td colspan=2>a</td><td rowspan=2>b</td></tr><tr><td>c</td><td>d</td></tr>" +
      "<tr><td>e</td></tr></table>";
    const [table] = pasted(html).content;
    if (table?.type !== "table") throw new Error("no table");
    const texts = table.content.map((row) =>
      row.content.map((cell) => plainText({ type: "doc", content: cell.content })),
    );
    expect(texts).toEqual([
      ["a", "", "b"],
      ["c", "d", ""],
      ["e", "", ""],
    ]);
  });

  it("contain headings, line breaks and nested tables as lines", () => {
    const html =
      "<table><tr><td><h2>H</h2>x<br>y</td><td><table><tr><td>i</td><td>j</td></tr></table></td>" +
      "</tr></table>";
    expect(lines(html)).toEqual(["H  i | j", "x", "y"]);
  });

  it("for layout become lines", () => {
    expect(lines("<table><tr><td><p>a</p><p>b</p></td></tr></table>")).toEqual(["a", "b"]);
  });
});

describe("Google Docs", () => {
  const google = (inner: string) =>
    `<meta charset='utf-8'><b style="font-weight:normal;" id="docs-internal-guid-1">${inner}</b>`;

  it("is bold only by its styles", () => {
    const html = google(
      '<p dir="ltr"><span style="font-weight:400;font-style:normal;text-decoration:none">plain </span>' +
        '<span style="font-weight:700">bold</span><span style="font-style:italic"> slanted</span></p>',
    );
    expect(marks(html)).toEqual([
      ["plain ", { type: "text", text: "plain " }],
      ["bold", { type: "text", text: "bold", marks: ["bold"] }],
      [" slanted", { type: "text", text: " slanted", marks: ["italic"] }],
    ]);
    expect(marks("<p><b>still</b></p>")[0]?.[1]).toMatchObject({ marks: ["bold"] });
  });

  it("has nested lists beside their items, and line breaks as empty lines", () => {
    const html = google(
      '<p>x</p><br><ol><li aria-level="1"><p role="presentation">a</p></li><ul>' +
        '<li aria-level="2"><p>b</p></li></ul><li><p>c</p></li></ol><br class="Apple-interchange-newline">',
    );
    expect(lines(html)).toEqual(["x", "", "1. a", "  - b", "2. c"]);
  });
});

describe("lines", () => {
  it("keep their order if emphasis spans a line break", () => {
    expect(lines("<p>a <b>b<br>c</b> d</p><div>e<br>f<div>g</div></div>")).toEqual([
      "a b",
      "c d",
      "e",
      "f",
      "g",
    ]);
  });

  it("of lists with another start keep their numbers", () => {
    expect(lines('<ol start="3"><li>c</li><li>d</li></ol>')).toEqual(["3. c", "4. d"]);
  });

  it("of deep lists stay within the engine's limit", () => {
    const deep = "<ul><li>x".repeat(12) + "</li></ul>".repeat(12);
    const depth = Math.max(...lines(deep).map((line) => line.indexOf("-") / 2 + 1));
    expect([depth, lines(deep).length]).toEqual([9, 12]);
  });
});

describe("raised and lowered text", () => {
  const raised = (html: string) =>
    `<span style="font-size:8pt;vertical-align:super">${html}</span>`;
  it.each([
    ["10<sup>9</sup>/l", "10⁹/l"],
    ["10<sup>-3</sup> s<sup>-1</sup>", "10⁻³ s⁻¹"],
    ["10<SUP>−12</SUP>", "10⁻¹²"],
    [`4,5 × 10${raised("12")}/l`, "4,5 × 10¹²/l"],
    [`10<b style="vertical-align: super">9</b>/l`, "10⁹/l"],
    ["3 cm<sup>2</sup>, 4 cm<sup>3</sup>", "3 cm², 4 cm³"],
    ["10<sup>0.5</sup>", "10^0.5"],
    ["x<sup>a+1</sup>", "x^(a+1)"],
    ["<sup>18</sup>F-FDG", "¹⁸F-FDG"],
    ["1<sup>st</sup> and 3<sup>ème</sup>", "1st and 3ème"],
    ["CO<sub>2</sub>, T<sub>1</sub>, SUV<sub>max</sub>", "CO₂, T₁, SUVmax"],
    [`H<span style='vertical-align:sub'>2</span>O`, "H₂O"],
    ["10<sup><b>9</b></sup>/l", "10⁹/l"],
    ["<sup><sup>2</sup></sup>", "²"],
    ["plain<sup></sup> text", "plain text"],
  ])("stays distinct: %s", (html, shown) => {
    expect(lines(`<p>${html}</p>`)).toEqual([shown]);
  });
});
