// The problems of a file as ranges of its text.
import type { Issue } from "../types";
import type { Range } from "./folding";

export interface Problem extends Range {
  severity: string;
  message: string;
}

/** Returns a range for each problem: the word at its line and column. */
export function problemsOf(text: string, issues: readonly Issue[]): Problem[] {
  const lines = text.split("\n");
  return issues.map(({ line: number, column, severity, message }) => {
    const index = Math.min(Math.max(number, 1), lines.length) - 1;
    const line = lines[index] ?? "";
    const at = Math.min(Math.max(column - 1, 0), line.length);
    const word =
      /^("[^"]*"|'[^']*'|[^\s,{}[\]:]+)/.exec(line.slice(at))?.[0] ?? line.slice(at, at + 1);
    const from = lines.slice(0, index).reduce((sum, above) => sum + above.length + 1, at);
    return { from, to: from + word.length, severity, message };
  });
}
