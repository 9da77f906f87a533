// What a draft changes, in words: the rules that differ from the active version, then the files.
import { difference } from "../../ui/difference";
import type { OutlineRule } from "../rules/rules";
import type { Files } from "../types";

/** What a rule says, and its place. */
export type WordedRule = Pick<OutlineRule, "target" | "words" | "within">;
interface WordedRules {
  readonly rules: readonly WordedRule[];
}

export interface RuleChange {
  /** The tag, the Metadata key or the place that the rule is for. */
  name: string;
  kind: "added" | "changed" | "removed";
  /** What the rule does; of a removed one, what it did. */
  words: string;
  /** What a changed rule did. */
  before: string;
}
export interface FileChange {
  file: string;
  added: number;
  removed: number;
}

/** Rules of one target, such as two rows of order control, differ by their order. */
function byKey(rules: readonly WordedRule[]): Map<string, WordedRule> {
  const found = new Map<string, WordedRule>();
  for (const rule of rules) {
    const key = [rule.target, ...rule.within].join(" ");
    let at = 0;
    while (found.has(`${key} ${at}`)) at += 1;
    found.set(`${key} ${at}`, rule);
  }
  return found;
}

const nameOf = (target: string) => target.replace(/^tag:/, "").replace(/^meta:/, "Metadata.");

/** Returns the rules that differ, in the order of the later version; removed ones come last. */
export function ruleChanges(before: WordedRules | null, after: WordedRules): RuleChange[] {
  const old = byKey(before?.rules ?? []);
  const changes: RuleChange[] = [];
  for (const [key, rule] of byKey(after.rules)) {
    const earlier = old.get(key);
    old.delete(key);
    if (earlier?.words === rule.words) continue;
    changes.push({
      name: nameOf(rule.target),
      kind: earlier ? "changed" : "added",
      words: rule.words,
      before: earlier?.words ?? "",
    });
  }
  for (const rule of old.values())
    changes.push({ name: nameOf(rule.target), kind: "removed", words: rule.words, before: "" });
  return changes;
}

/** Returns how many lines of each file differ. */
export function fileChanges(before: Files, after: Files): FileChange[] {
  return Object.keys(after)
    .sort()
    .map((file) => {
      const lines = difference(before[file] ?? "", after[file] ?? "", "text");
      const count = (kind: string) => lines.filter((line) => line.kind === kind).length;
      return { file, added: count("added"), removed: count("removed") };
    });
}
