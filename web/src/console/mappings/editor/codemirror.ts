// The CodeMirror configuration for definitions: theme, completion, folding and marks of problems.
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
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  StreamLanguage,
  syntaxHighlighting,
} from "@codemirror/language";
import { python } from "@codemirror/legacy-modes/mode/python";
import { yaml } from "@codemirror/legacy-modes/mode/yaml";
import { EditorState, type Extension } from "@codemirror/state";
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
import { folding } from "./folding";
import { marks } from "./marks";
import { choicesAt, takesPlaces, type Schema } from "./schemaChoices";

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
  { tag: [tags.atom, tags.function(tags.variableName)], color: "var(--accent)" }, // keys of YAML
  { tag: tags.string, color: "var(--ok)" },
  { tag: [tags.keyword, tags.bool, tags.number], color: "var(--violet)" },
  { tag: tags.comment, color: "var(--text-3)", fontStyle: "italic" },
  { tag: tags.meta, color: "var(--text-3)" },
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
  ".cm-foldGutter .cm-gutterElement": { width: "1.2em", cursor: "pointer", textAlign: "center" },
  ".cm-foldPlaceholder": {
    marginInlineStart: "0.6em",
    padding: "0 0.5em",
    color: "var(--text-2)",
    backgroundColor: "var(--raised)",
    border: "1px solid var(--line)",
    borderRadius: "var(--r1)",
    fontFamily: "var(--font)",
    fontSize: "12px",
  },
  ".cm-signs": { width: "1.2em" },
  ".cm-sign": { fontSize: "10px" },
  ".cm-sign.error": { color: "var(--red)" },
  ".cm-sign.warning": { color: "var(--amber)" },
  ".cm-problem": { borderBottom: "2px solid var(--amber)" },
  ".cm-problem.error": { borderBottomColor: "var(--red)" },
});

function baseExtensions(file: string): Extension[] {
  const mode = file.endsWith(".yaml") ? yaml : file.endsWith(".py") ? python : null;
  return [
    marks(),
    lineNumbers(),
    folding(),
    EditorView.lineWrapping,
    THEME,
    syntaxHighlighting(COLOURS),
    mode ? StreamLanguage.define(mode) : [],
  ];
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
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...historyKeymap,
      ...completionKeymap,
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
