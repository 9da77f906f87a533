// The steps of a timeline, with repeated attempts folded into one row.

export type Lane = "message" | "order" | "report" | "delivery" | "person";

export interface Step {
  id: string;
  at: number | null;
  lane: Lane;
  text: string;
  detail?: string | undefined;
  tone?: "ok" | "amber" | "red" | "info" | "neutral" | undefined;
  href?: string | undefined;
  /** Steps with the same key that follow each other are one attempt repeated. */
  fold?: string | undefined;
}
export interface Row {
  step: Step;
  /** Milliseconds after the row before; null for the first. */
  after: number | null;
  /** The steps of this row. */
  folded: readonly Step[];
}

/** Three or more equal attempts in a run are one row. */
const FOLDED_FROM = 3;

export function rowsOf(steps: readonly Step[], unfolded: ReadonlySet<string> = new Set()): Row[] {
  const runs: Step[][] = [];
  for (const step of steps) {
    const run = runs.at(-1);
    if (run && step.fold !== undefined && run[0]?.fold === step.fold) run.push(step);
    else runs.push([step]);
  }
  const rows: Row[] = [];
  let before: number | null = null;
  for (const run of runs) {
    const first = run[0];
    if (!first) continue;
    const isFolded = run.length >= FOLDED_FROM && !unfolded.has(first.id);
    for (const step of isFolded ? [first] : run) {
      const after: number | null =
        before === null || step.at === null ? null : Math.max(0, step.at - before);
      rows.push({ step, after, folded: isFolded ? run : [step] });
      if (step.at !== null) before = step.at;
    }
    if (isFolded) before = run.at(-1)?.at ?? before;
  }
  return rows;
}
