// Shows requests and default text with decorations of two kinds, each with a name. Only changed parts of the document are updated,
// so typing in a long report is as fast as in a short one.
import { Extension } from "@tiptap/core";
import type { Node as Inner } from "@tiptap/pm/model";
import { Plugin, PluginKey, type Transaction } from "@tiptap/pm/state";
import { Decoration, DecorationSet } from "@tiptap/pm/view";
import { t } from "../../../shared/i18n";
import { bracketsBetween, defaultsBetween, type Range } from "./brackets";

const KEY = new PluginKey<DecorationSet>("brackets");

function shown(doc: Inner, from: number, to: number): Decoration[] {
  const requests = bracketsBetween(doc, from, to).map((bracket) => {
    const label = doc.textBetween(bracket.from + 1, bracket.to - 1).trim();
    return named(bracket, "bracket", t("editor.request", { label }));
  });
  const defaults = defaultsBetween(doc, from, to).map((field) =>
    named(field, "default-text", t("editor.default_text", { label: field.label })),
  );
  return [...requests, ...defaults];
}

const named = (range: Range, kind: string, title: string): Decoration =>
  Decoration.inline(range.from, range.to, { class: kind, role: "group", title });

/** Returns the whole text blocks that a transaction touched, in the new document. */
function touched(tr: Transaction): Range[] {
  const ranges: Range[] = [];
  tr.mapping.maps.forEach((map, index) => {
    const later = tr.mapping.slice(index + 1);
    map.forEach((_oldFrom, _oldTo, from, to) => {
      const size = tr.doc.content.size;
      const start = Math.max(0, Math.min(later.map(from, -1), size));
      const end = Math.max(start, Math.min(later.map(to, 1), size));
      const $start = tr.doc.resolve(start);
      const $end = tr.doc.resolve(end);
      ranges.push({
        from: $start.depth ? $start.before(1) : start,
        to: $end.depth ? $end.after(1) : end,
      });
    });
  });
  return ranges;
}

function updated(tr: Transaction, before: DecorationSet): DecorationSet {
  if (!tr.docChanged) return before;
  let set = before.map(tr.mapping, tr.doc);
  for (const { from, to } of touched(tr)) {
    set = set.remove(set.find(from, to)).add(tr.doc, shown(tr.doc, from, to));
  }
  return set;
}

export const BracketHighlights = Extension.create({
  name: "bracketHighlights",
  addProseMirrorPlugins: () => [
    new Plugin<DecorationSet>({
      key: KEY,
      state: {
        init: (_, { doc }) => DecorationSet.create(doc, shown(doc, 0, doc.content.size)),
        apply: updated,
      },
      props: { decorations: (state) => KEY.getState(state) },
    }),
  ],
});
