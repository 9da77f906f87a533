// When a text is saved: a state machine without side effects. Times are arguments
// (milliseconds); the owner of the state calls `due` to learn when to save.

export type Phase = "saved" | "waiting" | "saving" | "offline" | "refused";

/** `failing`: the service answers with errors, or does not answer in time. */
export type Trouble = "" | "unreachable" | "failing";

export interface Saving {
  readonly phase: Phase;
  /** The number of edits, and how many of them are saved. */
  readonly edits: number;
  readonly kept: number;
  readonly sending: number | null;
  /** The times of the first and last unsaved edit. */
  readonly since: number;
  readonly last: number;
  readonly savedAt: number | null;
  readonly retryAt: number;
  readonly failures: number;
  /** Why the newest edits are not saved; kept until a save succeeds. */
  readonly trouble: Trouble;
  /** The error code of a refusal. */
  readonly reason: string;
}

export const FRESH: Saving = {
  phase: "saved",
  edits: 0,
  kept: 0,
  sending: null,
  since: 0,
  last: 0,
  savedAt: null,
  retryAt: 0,
  failures: 0,
  trouble: "",
  reason: "",
};

/** The delay of a save after the last edit, and the maximum after the first. */
export interface Pace {
  quiet: number;
  longest: number;
}

export const PACE: Pace = { quiet: 1200, longest: 4000 };
/** Shorter delays for browsers that cannot keep text. */
export const HURRIED: Pace = { quiet: 400, longest: 900 };

const RETRIES = [1000, 2000, 4000, 8000, 15_000];

export function edited(state: Saving, now: number): Saving {
  const clean = state.edits === state.kept;
  const phase = state.phase === "saved" ? "waiting" : state.phase;
  return {
    ...state,
    phase,
    edits: state.edits + 1,
    since: clean ? now : state.since,
    last: now,
  };
}

export function begun(state: Saving): Saving {
  return { ...state, phase: "saving", sending: state.edits };
}

export function done(state: Saving, now: number): Saving {
  const kept = state.sending ?? state.kept;
  const clean = kept === state.edits;
  return {
    ...state,
    phase: clean ? "saved" : "waiting",
    kept,
    sending: null,
    since: clean ? state.since : now,
    savedAt: now,
    failures: 0,
    trouble: "",
    reason: "",
  };
}

/** Milliseconds after the first edit until the user is notified of a save without an answer. */
const TOLD_AFTER = 4500;
const ANSWERS_WITHIN = { least: 800, most: 2500 };

/** Returns how long to wait for the answer to a save before the user is notified. */
export function patience(state: Saving, now: number): number {
  const { least, most } = ANSWERS_WITHIN;
  return Math.min(most, Math.max(least, state.since + TOLD_AFTER - now));
}

/** The save has no response yet. It continues, and the user is notified. */
export function delayed(state: Saving): Saving {
  return state.sending === null ? state : { ...state, trouble: state.trouble || "failing" };
}

/** The save failed temporarily: retry with increasing intervals. */
export function lost(state: Saving, now: number, trouble: Trouble = "unreachable"): Saving {
  const wait = RETRIES[Math.min(state.failures, RETRIES.length - 1)] ?? 0;
  return {
    ...state,
    phase: "offline",
    sending: null,
    failures: state.failures + 1,
    trouble,
    retryAt: now + wait,
  };
}

/** The service refused the text: no retry before the user has decided. */
export function refused(state: Saving, reason: string): Saving {
  return { ...state, phase: "refused", sending: null, reason };
}

/** The shown text is saved. */
export function saved(state: Saving): Saving {
  const kept = state.edits;
  return { ...state, phase: "saved", kept, sending: null, failures: 0, trouble: "", reason: "" };
}

/** The user decided to save this text. */
export function resumed(state: Saving, now: number): Saving {
  if (state.edits === state.kept) return { ...state, phase: "saved", reason: "" };
  return { ...state, phase: "waiting", since: now, last: now, reason: "" };
}

export const isDirty = (state: Saving): boolean => state.edits !== state.kept;

/** Returns the time of the next save; null if none is due. */
export function due(state: Saving, pace: Pace): number | null {
  if (!isDirty(state) || state.sending !== null || state.phase === "refused") return null;
  if (state.phase === "offline") return state.retryAt;
  return Math.min(state.last + pace.quiet, state.since + pace.longest);
}
