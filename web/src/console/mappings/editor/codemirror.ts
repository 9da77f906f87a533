// The CodeMirror configuration for definitions: theme, completion and problem markers.
// It runs in a shadow root, whose styles need no exception in the content security policy.
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { yaml } from "@codemirror/lang-yaml";
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension, type Text } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { contextAt } from "./cursorContext";
import { choicesAt, takesPlaces, type Schema } from "./schemaChoices";
import type { Issue } from "../types";

/** The data that completion uses. */
export interface Knowledge {
  schema: Schema | null;
  kind: string;
  /** Field paths of the test message with a sample value each. */
  places: readonly { place: string; text: string }[];
  /** Files and code tables that a definition can refer to. */
  files: readonly string[];
}

const MONO = 'ui-monospace, "Liberation Mono", monospace';

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.keyword, tags.bool, tags.atom, tags.typeName], color: "var(--warn)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.bracket], color: "var(--quiet)" },
  { tag: [tags.number], color: "var(--warn)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--ground)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: MONO, fontSize: "13px", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": {
    color: "var(--quiet)",
    backgroundColor: "var(--panel)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--hover) 45%, transparent)" },
  ".cm-activeLineGutter": { color: "var(--text)", backgroundColor: "var(--hover)" },
  "& .cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground":
    { backgroundColor: "color-mix(in srgb, var(--accent-ground) 70%, transparent)" },
  ".cm-matchingBracket": { backgroundColor: "var(--hover)", outline: "1px solid var(--edge)" },
  ".cm-selectionMatch": { backgroundColor: "var(--hover)" },
  ".cm-tooltip": {
    color: "var(--text)",
    backgroundColor: "var(--raised)",
    border: "1px solid var(--line)",
    borderRadius: "var(--radius)",
    boxShadow: "var(--shadow)",
  },
  ".cm-tooltip-autocomplete > ul": { fontFamily: MONO, fontSize: "13px", maxHeight: "16em" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    color: "var(--on-accent)",
    backgroundColor: "var(--accent-ground)",
  },
  ".cm-completionDetail": { color: "var(--quiet)", fontStyle: "normal" },
  "li[aria-selected] .cm-completionDetail": { color: "var(--on-accent)" },
  ".cm-completionInfo": { maxWidth: "22em", padding: "0.4em 0.6em" },
  ".cm-panels": { color: "var(--text)", backgroundColor: "var(--panel)" },
  ".cm-panel input, .cm-panel button": { color: "inherit", background: "var(--raised)" },
  ".cm-diagnostic": { padding: "0.3em 0.6em" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "4px solid var(--warn)" },
  ".cm-lintRange-error": { background: "none", borderBottom: "2px solid var(--bad)" },
  ".cm-lintRange-warning": { background: "none", borderBottom: "2px solid var(--warn)" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-ground)", outline: "1px solid var(--warn)" },
});

/** Returns the extensions of all views, including read-only ones. */
export function baseExtensions(file: string): Extension[] {
  const language = file.endsWith(".yaml") ? [yaml()] : file.endsWith(".py") ? [python()] : [];
  return [lineNumbers(), EditorView.lineWrapping, THEME, syntaxHighlighting(COLOURS), ...language];
}

/** Returns the extensions of an editor; `changed` is called with every change. */
export function editableExtensions(
  file: string,
  label: string,
  changed: (text: string) => void,
  knowledge: () => Knowledge = () => ({ schema: null, kind: "", places: [], files: [] }),
): Extension[] {
  const source = file.endsWith(".yaml")
    ? [(request: CompletionContext) => complete(request, knowledge())]
    : [];
  return [
    ...baseExtensions(file),
    history(),
    drawSelection(),
    indentOnInput(),
    indentUnit.of("  "),
    bracketMatching(),
    closeBrackets(),
    autocompletion({ override: source, icons: false }),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    highlightSelectionMatches(),
    lintGutter(),
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...completionKeymap,
      ...lintKeymap,
      indentWithTab,
    ]),
    EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) changed(update.state.doc.toString());
    }),
  ];
}

/** Returns the extensions of a read-only view. */
export function readOnlyExtensions(file: string, label: string): Extension[] {
  return [
    ...baseExtensions(file),
    EditorState.readOnly.of(true),
    EditorView.contentAttributes.of({
      "aria-label": label,
      "aria-readonly": "true",
      tabindex: "0",
    }),
  ];
}

/** Marks the problems of a file at their positions. */
export function markProblems(view: EditorView, issues: readonly Issue[]): void {
  const found = issues.map((each) => diagnostic(view.state.doc, each));
  view.dispatch(
    setDiagnostics(
      view.state,
      found.sort((a, b) => a.from - b.from),
    ),
  );
}

function diagnostic(doc: Text, issue: Issue): Diagnostic {
  const line = doc.line(Math.min(Math.max(issue.line, 1), doc.lines));
  const from = Math.min(line.from + Math.max(issue.column - 1, 0), line.to);
  const word = /^("[^"]*"|'[^']*'|[^\s,{}[\]:]+)/.exec(line.text.slice(from - line.from));
  const to = Math.min(from + (word?.[0].length ?? 1), line.to);
  const severity = issue.severity === "error" ? "error" : "warning";
  return { from, to: Math.max(to, from), severity, message: issue.message };
}

function complete(request: CompletionContext, known: Knowledge): CompletionResult | null {
  const { path, expects, word, from } = contextAt(request.state.doc.toString(), request.pos);
  if (!known.schema || (!request.explicit && word === "")) return null;
  const last = path.at(-1);
  const keys = expects !== "value" || word === "";
  const words = expects !== "key";
  const options: Completion[] = choicesAt(known.schema, path, known.kind)
    .filter((each) => (each.key ? keys && expects !== "value" : words))
    .map((each) => ({
      label: each.label,
      apply: each.key ? `${each.label}: ` : each.label,
      type: each.key ? "property" : "keyword",
      boost: 1,
      ...(each.detail ? { info: each.detail } : {}),
    }));
  if (words && takesPlaces(known.schema, path, known.kind)) options.push(...placesOf(known));
  if (words && typeof last === "string") options.push(...namesFor(last, known));
  if (words && typeof last === "number" && path.at(-2) === "include") {
    options.push(...namesFor("include", known));
  }
  return options.length ? { from, options, validFor: /^[\w\-.^[\]=]*$/ } : null;
}

function placesOf(known: Knowledge): Completion[] {
  return known.places.map(({ place, text }) => ({
    label: place,
    detail: text.slice(0, 30),
    type: "variable",
  }));
}

function namesFor(key: string, known: Knowledge): Completion[] {
  const table = /^codes\/(.+)\.csv$/;
  const wanted = known.files.flatMap((file) => {
    if (key === "include") return file.endsWith(".yaml") ? [file] : [];
    return key.startsWith("codes") ? (table.exec(file)?.slice(1, 2) ?? []) : [];
  });
  return wanted.map((label) => ({ label, type: "text" }));
}
