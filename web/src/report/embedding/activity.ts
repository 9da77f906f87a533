// When a session ends for want of activity (research V78): warned a minute before, never while the
// user or the host is active. Pure: the clock is a parameter.

export interface ActivityRules {
  /** After so long without activity the session ends. */
  idleMs: number;
  /** At this moment it ends in any case (milliseconds since the epoch; 0: never). */
  endsAt: number;
}

export type Wakefulness =
  | { kind: "awake" }
  | { kind: "warning"; seconds: number; idle: boolean }
  | { kind: "over"; idle: boolean };

export const WARNING_MS = 60_000;
/** The host is heard at most once a second. */
export const HOST_EVERY_MS = 1000;
/** The engine is told at most so often. */
export const TOLD_EVERY_MS = 30_000;

export class Activity {
  readonly #rules: ActivityRules;
  #last: number;
  #told: number;
  #host = 0;

  constructor(rules: ActivityRules, now: number) {
    this.#rules = rules;
    this.#last = now;
    this.#told = now;
  }

  /** Notes that the user did something in this page. */
  note(now: number): void {
    this.#last = Math.max(this.#last, now);
  }

  /** Notes the host's user_activity; more than one a second counts as one. */
  noteHost(now: number): void {
    if (now - this.#host < HOST_EVERY_MS) return;
    this.#host = now;
    this.note(now);
  }

  /** Tells whether the engine is to be told of activity now; says so once. */
  due(now: number): boolean {
    if (this.#last <= this.#told || now - this.#told < TOLD_EVERY_MS) return false;
    this.#told = now;
    return true;
  }

  state(now: number): Wakefulness {
    const idleAt = this.#last + this.#rules.idleMs;
    const { endsAt } = this.#rules;
    const idle = !endsAt || idleAt <= endsAt;
    const left = (idle ? idleAt : endsAt) - now;
    if (left <= 0) return { kind: "over", idle };
    const warning = Math.min(WARNING_MS, this.#rules.idleMs / 2);
    if (left <= warning) return { kind: "warning", seconds: Math.ceil(left / 1000), idle };
    return { kind: "awake" };
  }
}
