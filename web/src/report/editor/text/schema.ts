// The editor's schema: exactly what the engine's document can hold, as TipTap extensions.
//
// A field is a mark on its text: `[label]` is typed over like any text and keeps its label, so
// that caret, selection, spelling and undo are those of plain text.
import { Mark, Node, type Extensions } from "@tiptap/core";

const Doc = Node.create({ name: "doc", topNode: true, content: "block+" });

const PlainText = Node.create({ name: "text", group: "inline" });

const Paragraph = Node.create({
  name: "paragraph",
  group: "block",
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
  content: "text*",
  parseHTML: () => [{ tag: "li" }],
  renderHTML: ({ HTMLAttributes }) => ["li", HTMLAttributes, 0],
});

const list = (name: string, tag: string) =>
  Node.create({
    name,
    group: "block",
    content: "listItem+",
    parseHTML: () => [{ tag }],
    renderHTML: ({ HTMLAttributes }) => [tag, HTMLAttributes, 0],
  });

const emphasis = (name: string, tags: readonly string[], shown: string) =>
  Mark.create({
    name,
    parseHTML: () => tags.map((tag) => ({ tag })),
    renderHTML: () => [shown, 0],
  });

/** What no person has written or accepted yet. Not carried over by typing behind it. */
const Suggested = Mark.create({
  name: "suggested",
  inclusive: false,
  parseHTML: () => [{ tag: "span[data-suggested]" }],
  renderHTML: () => ["span", { class: "suggested", "data-suggested": "" }, 0],
});

/** `id` tells neighbours with the same label apart. */
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
  emphasis("bold", ["strong", "b"], "strong"),
  emphasis("italic", ["em", "i"], "em"),
  emphasis("underline", ["u"], "u"),
  Suggested,
  Field,
];
