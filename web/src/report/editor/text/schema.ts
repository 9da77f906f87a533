// The editor schema as TipTap extensions: exactly what the service's document can contain.
//
// A field is a mark on its text. It is edited like plain text and keeps its label, so
// caret, selection, spelling and undo work as usual.
import { Mark, Node, type Extensions } from "@tiptap/core";

const Doc = Node.create({ name: "doc", topNode: true, content: "block+" });

const PlainText = Node.create({ name: "text", group: "inline" });

const Paragraph = Node.create({
  name: "paragraph",
  group: "block cellBlock",
  content: "text*",
  priority: 1000,
  parseHTML: () => [{ tag: "p" }],
  renderHTML: ({ HTMLAttributes }) => ["p", HTMLAttributes, 0],
});

const Section = Node.create({
  name: "section",
  group: "block",
  content: "text*",
  marks: "",
  defining: true,
  parseHTML: () => ["h1", "h2", "h3", "h4", "h5", "h6"].map((tag) => ({ tag })),
  renderHTML: ({ HTMLAttributes }) => ["h2", HTMLAttributes, 0],
});

const Item = Node.create({
  name: "listItem",
  content: "paragraph (bulletList | orderedList)*",
  defining: true,
  parseHTML: () => [{ tag: "li" }],
  renderHTML: ({ HTMLAttributes }) => ["li", HTMLAttributes, 0],
});

const list = (name: string, tag: string) =>
  Node.create({
    name,
    group: "block cellBlock",
    content: "listItem+",
    parseHTML: () => [{ tag }],
    renderHTML: ({ HTMLAttributes }) => [tag, HTMLAttributes, 0],
  });

const Table = Node.create({
  name: "table",
  group: "block",
  content: "tableRow+",
  isolating: true,
  extendNodeSchema: (extension) => (extension.name === "table" ? { tableRole: "table" } : {}),
  parseHTML: () => [{ tag: "table" }],
  renderHTML: () => ["table", ["tbody", 0]],
});

const Row = Node.create({
  name: "tableRow",
  content: "(tableCell | tableHeader)+",
  extendNodeSchema: (extension) => (extension.name === "tableRow" ? { tableRole: "row" } : {}),
  parseHTML: () => [{ tag: "tr" }],
  renderHTML: () => ["tr", 0],
});

/** Cells are not merged; the table editing of ProseMirror requires the spans. */
const cell = (name: string, tag: string, tableRole: string) =>
  Node.create({
    name,
    content: "cellBlock+",
    isolating: true,
    addAttributes: () => ({
      colspan: { default: 1, rendered: false, parseHTML: () => 1 },
      rowspan: { default: 1, rendered: false, parseHTML: () => 1 },
      colwidth: { default: null, rendered: false, parseHTML: () => null },
    }),
    extendNodeSchema: (extension) => (extension.name === name ? { tableRole } : {}),
    parseHTML: () => [{ tag }],
    renderHTML: () => [tag, 0],
  });

const emphasis = (name: string, tags: readonly string[], shown: string) =>
  Mark.create({
    name,
    parseHTML: () => tags.map((tag) => ({ tag })),
    renderHTML: () => [shown, 0],
  });

/** Suggested text that no user has accepted. Typing after it does not extend the mark. */
const Suggested = Mark.create({
  name: "suggested",
  inclusive: false,
  parseHTML: () => [{ tag: "span[data-suggested]" }],
  renderHTML: () => ["span", { class: "suggested", "data-suggested": "" }, 0],
});

/** `id` distinguishes neighbours with the same label; `default` is what the template declares. */
const Field = Mark.create({
  name: "field",
  excludes: "_",
  addAttributes: () => ({
    label: {
      default: "",
      parseHTML: (element: HTMLElement) => element.dataset["field"] ?? "",
      renderHTML: (attributes: Record<string, unknown>) => ({ "data-field": attributes["label"] }),
    },
    id: { default: "", rendered: false },
    default: {
      default: "",
      parseHTML: (element: HTMLElement) => element.dataset["default"] ?? "",
      renderHTML: ({ default: text }: Record<string, unknown>) =>
        text ? { "data-default": text } : {},
    },
  }),
  parseHTML: () => [{ tag: "span[data-field]" }],
  renderHTML: ({ HTMLAttributes }) => ["span", { ...HTMLAttributes, class: "field" }, 0],
});

export const SCHEMA: Extensions = [
  Doc,
  PlainText,
  Paragraph,
  Section,
  list("bulletList", "ul"),
  list("orderedList", "ol"),
  Item,
  Table,
  Row,
  cell("tableCell", "td", "cell"),
  cell("tableHeader", "th", "header_cell"),
  emphasis("bold", ["strong", "b"], "strong"),
  emphasis("italic", ["em", "i"], "em"),
  emphasis("underline", ["u"], "u"),
  Suggested,
  Field,
];
