// The problems of a file: underlined in the text, with a sign in the gutter.
import { RangeSet, StateEffect, StateField, type Extension, type Text } from "@codemirror/state";
import { Decoration, EditorView, gutter, GutterMarker, type DecorationSet } from "@codemirror/view";
import type { Issue } from "../types";

interface Marks {
  underlined: DecorationSet;
  signs: RangeSet<GutterMarker>;
}

class Sign extends GutterMarker {
  constructor(
    readonly severity: string,
    readonly message: string,
  ) {
    super();
  }
  override eq(other: Sign): boolean {
    return this.severity === other.severity && this.message === other.message;
  }
  override toDOM(): HTMLElement {
    const made = document.createElement("span");
    made.className = `cm-sign ${this.severity}`;
    made.textContent = this.severity === "error" ? "◆" : "▲";
    made.title = this.message;
    return made;
  }
}

const replaced = StateEffect.define<readonly Issue[]>();

const field = StateField.define<Marks>({
  create: () => ({ underlined: Decoration.none, signs: RangeSet.empty }),
  update(marks, transaction) {
    for (const effect of transaction.effects)
      if (effect.is(replaced)) return marksOf(transaction.state.doc, effect.value);
    if (!transaction.docChanged) return marks;
    return {
      underlined: marks.underlined.map(transaction.changes),
      signs: marks.signs.map(transaction.changes),
    };
  },
  provide: (own) => EditorView.decorations.from(own, (marks) => marks.underlined),
});

/** Shows these problems instead of the former ones. */
export function markProblems(view: EditorView, issues: readonly Issue[]): void {
  view.dispatch({ effects: replaced.of(issues) });
}

function marksOf(doc: Text, issues: readonly Issue[]): Marks {
  const underlined = [];
  const byLine = new Map<number, Issue[]>();
  for (const issue of issues) {
    const { line, from, to } = rangeOf(doc, issue);
    byLine.set(line, [...(byLine.get(line) ?? []), issue]);
    if (to > from)
      underlined.push(
        Decoration.mark({
          class: `cm-problem ${issue.severity}`,
          attributes: { title: issue.message },
        }).range(from, to),
      );
  }
  const signs = [...byLine].map(([at, found]) => {
    const severity = found.some((issue) => issue.severity === "error") ? "error" : "warning";
    return new Sign(severity, found.map((issue) => issue.message).join("\n")).range(at);
  });
  return { underlined: Decoration.set(underlined, true), signs: RangeSet.of(signs, true) };
}

function rangeOf(doc: Text, issue: Issue): { line: number; from: number; to: number } {
  const line = doc.line(Math.min(Math.max(issue.line, 1), doc.lines));
  const from = Math.min(line.from + Math.max(issue.column - 1, 0), line.to);
  const word = /^("[^"]*"|'[^']*'|[^\s,{}[\]:]+)/.exec(line.text.slice(from - line.from));
  return { line: line.from, from, to: Math.min(from + (word?.[0].length ?? 1), line.to) };
}

export function marks(): Extension[] {
  return [field, gutter({ class: "cm-signs", markers: (view) => view.state.field(field).signs })];
}
