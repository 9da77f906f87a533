// The rows of the editor: the visible lines with their colours, folds and problems.
import { highlightLines, type Language } from "../../ui/highlight";
import type { EditorText } from "./editorText.svelte";
import { lastFolded, type Range } from "./folding";
import type { Problem } from "./problems";

export interface Span {
  text: string;
  kind: string;
  message?: string | undefined;
}

export interface Row {
  /** The number of the line, from 1 on. */
  number: number;
  spans: readonly Span[];
  /** How many lines are folded away below it. */
  hidden: number;
  canFold: boolean;
  problems: readonly Problem[];
}

/** A part of a line that is marked; columns from 0 on. */
export interface Mark extends Range {
  kind: string;
  message?: string;
}

export function languageOf(file: string): Language {
  return file.endsWith(".yaml") ? "yaml" : file.endsWith(".py") ? "python" : "text";
}

export function rowsOf(content: EditorText, language: Language): Row[] {
  const all = content.text.split("\n");
  const lines = content.visible.split("\n");
  const parts = highlightLines(lines, language);
  let number = 0;
  let from = 0;
  return lines.map((line, index) => {
    number += 1;
    const own = { number, from, to: from + line.length };
    const fold = content.folds.find((range) => range.from === own.to);
    const hidden = fold ? content.text.slice(fold.from, fold.to).split("\n").length - 1 : 0;
    number += hidden;
    from = (fold?.to ?? own.to) + 1;
    const problems = content.problems.filter(
      (problem) => problem.from >= own.from && problem.from < from,
    );
    const marks = problems
      .filter((problem) => problem.to <= own.to)
      .map((problem) => ({
        from: problem.from - own.from,
        to: problem.to - own.from,
        kind: `problem ${problem.severity}`,
        message: problem.message,
      }));
    return {
      number: own.number,
      spans: marked(parts[index] ?? [], marks),
      hidden,
      canFold: language !== "text" && lastFolded(all, own.number - 1) !== null,
      problems,
    };
  });
}

/** Splits the spans of a line where marks begin and end. */
export function marked(spans: readonly Span[], marks: readonly Mark[]): readonly Span[] {
  if (marks.length === 0) return spans;
  const edges = marks.flatMap(({ from, to }) => [from, to]);
  let at = 0;
  return spans.flatMap((span) => {
    const [start, end] = [at, at + span.text.length];
    at = end;
    const cuts = [start, ...edges.filter((edge) => edge > start && edge < end), end];
    const places = [...new Set(cuts)].sort((one, other) => one - other);
    return places.slice(0, -1).map((from, index) => {
      const to = places[index + 1] ?? end;
      const own = marks.filter((mark) => mark.from <= from && mark.to >= to);
      return {
        text: span.text.slice(from - start, to - start),
        kind: [span.kind, ...own.map((mark) => mark.kind)].join(" "),
        message: own.find((mark) => mark.message)?.message ?? span.message,
      };
    });
  });
}
