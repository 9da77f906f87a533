// When a session ends because of inactivity. A warning appears a minute before, never while the
// user or the host is active. No side effects; the clock is a parameter.

export interface ActivityRules {
  /** The inactivity timeout of the session. */
  idleMs: number;
  /** The absolute end of the session (milliseconds since the epoch; 0: never). */
  endsAt: number;
}

export type SessionState =
  | { kind: "active" }
  | { kind: "warning"; seconds: number; idle: boolean }
  | { kind: "expired"; idle: boolean };

export const WARNING_MS = 60_000;
/** Host activity counts at most once per second. */
export const HOST_EVERY_MS = 1000;
/** The minimum interval between activity reports to the service. */
export const REPORT_EVERY_MS = 30_000;

export class Activity {
  readonly #rules: ActivityRules;
  #last: number;
  #reported: number;
  #host = 0;

  constructor(rules: ActivityRules, now: number) {
    this.#rules = rules;
    this.#last = now;
    this.#reported = now;
  }

  /** Records activity of the user in this page. */
  note(now: number): void {
    this.#last = Math.max(this.#last, now);
  }

  /** Records user_activity of the host, at most once per second. */
  noteHost(now: number): void {
    if (now - this.#host < HOST_EVERY_MS) return;
    this.#host = now;
    this.note(now);
  }

  /** Returns once per interval whether to report activity to the service. */
  due(now: number): boolean {
    if (this.#last <= this.#reported || now - this.#reported < REPORT_EVERY_MS) return false;
    this.#reported = now;
    return true;
  }

  state(now: number): SessionState {
    const idleAt = this.#last + this.#rules.idleMs;
    const { endsAt } = this.#rules;
    const idle = !endsAt || idleAt <= endsAt;
    const left = (idle ? idleAt : endsAt) - now;
    if (left <= 0) return { kind: "expired", idle };
    const warning = Math.min(WARNING_MS, this.#rules.idleMs / 2);
    if (left <= warning) return { kind: "warning", seconds: Math.ceil(left / 1000), idle };
    return { kind: "active" };
  }
}
