// Saves one text: every edit goes to the journal at once and to the service soon after. autosave.ts
// decides when; the caller's `send` handles the response.
import { ApiProblem } from "../../../shared/api/client";
import type { ReportDocument } from "../text/document";
import {
  saved,
  begun,
  delayed,
  done,
  due,
  edited,
  FRESH,
  HURRIED,
  isDirty,
  lost,
  PACE,
  type Pace,
  patience,
  refused,
  resumed,
  type Saving,
} from "./autosave";
import type { Journal } from "./journal";

/** The maximum typing time that can be lost if the tab crashes. */
const JOURNAL_EVERY = 350;

export interface KeeperOptions {
  part: string;
  journal: Journal | null;
  content: () => ReportDocument;
  version: () => number;
  /** Called when the browser cannot store text: storage is full or was revoked. */
  onJournalFailed?: () => void;
  /** Resolves when the service has saved the text. */
  send: (content: ReportDocument) => Promise<void>;
}

export class TextSaver {
  saving = $state.raw<Saving>(FRESH);
  readonly #options: KeeperOptions;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #noting: ReturnType<typeof setTimeout> | undefined;
  #running: Promise<void> | null = null;
  #stopped = false;
  /** The journal has the text with this number of edits. */
  #journaled = 0;
  #writing = Promise.resolve();
  #suspended: Promise<void> | null = null;
  #pace: Pace;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#pace = options.journal ? PACE : HURRIED;
  }

  get dirty(): boolean {
    return isDirty(this.saving);
  }

  edited(): void {
    this.saving = edited(this.saving, Date.now());
    this.#noting ??= setTimeout(() => void this.writeJournal(), JOURNAL_EVERY);
    this.#plan();
  }

  /**
   * Writes unsaved text to the journal now. Text is written once only: another window that took it
   * over has removed it from the journal, and must not find it there again.
   */
  writeJournal(): Promise<void> {
    clearTimeout(this.#noting);
    this.#noting = undefined;
    return (this.#writing = this.#writing.then(() => this.#keep()));
  }

  async #keep(): Promise<void> {
    const { edits } = this.saving;
    if (!this.dirty || this.#stopped || edits === this.#journaled) return;
    const { journal, part, content, version } = this.#options;
    const entry = { content: content(), version: version(), at: Date.now() };
    try {
      await journal?.keep(part, entry);
      this.#journaled = edits;
    } catch {
      this.#hurry();
    }
  }

  /** Saves unsaved text; rejects if that fails. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    while (this.#suspended) await this.#suspended;
    await this.settled();
    while (this.dirty) {
      this.#running = this.#save();
      try {
        await this.#running;
      } finally {
        this.#running = null;
      }
    }
  }

  /** Suspends saving until the returned function is called; resolves when no save is running. */
  async suspend(): Promise<() => void> {
    let release = (): void => undefined;
    this.#suspended = new Promise((resolve) => (release = resolve));
    clearTimeout(this.#timer);
    await this.settled();
    return () => {
      this.#suspended = null;
      release();
      this.#plan();
    };
  }

  /** Resolves when no save is running. */
  async settled(): Promise<void> {
    while (this.#running) await this.#running.catch(() => undefined);
  }

  /** The shown text is saved: nothing needs to be kept. */
  async markSaved(): Promise<void> {
    this.saving = saved(this.saving);
    clearTimeout(this.#timer);
    clearTimeout(this.#noting);
    this.#noting = undefined;
    await this.#options.journal?.clear(this.#options.part).catch(() => undefined);
  }

  /** Resumes saving after a refusal. */
  resume(): void {
    this.saving = resumed(this.saving, Date.now());
    this.#plan();
  }

  /** Retries a failed save at once. */
  retry(): void {
    if (this.saving.phase === "offline") void this.flush().catch(() => undefined);
  }

  refuse(reason: string): void {
    this.saving = refused(this.saving, reason);
    void this.writeJournal();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#noting);
  }

  async #save(): Promise<void> {
    this.saving = begun(this.saving);
    const wait = patience(this.saving, Date.now());
    const slowTimer = setTimeout(() => (this.saving = delayed(this.saving)), wait);
    try {
      await this.#options.send(this.#options.content());
    } catch (error) {
      this.#failed(error);
      throw error;
    } finally {
      clearTimeout(slowTimer);
    }
    this.saving = done(this.saving, Date.now());
    if (this.dirty) this.#plan();
    else await this.#options.journal?.clear(this.#options.part).catch(() => undefined);
  }

  #failed(error: unknown): void {
    const problem = error instanceof ApiProblem ? error : null;
    if (problem && isRefusal(problem)) return this.refuse(problem.code);
    const unreachable = problem?.status === 0 && problem.code !== "timeout";
    this.saving = lost(this.saving, Date.now(), unreachable ? "unreachable" : "failing");
    void this.writeJournal();
    this.#plan();
  }

  #hurry(): void {
    this.#pace = HURRIED;
    this.#options.onJournalFailed?.();
    this.#plan();
  }

  #plan(): void {
    clearTimeout(this.#timer);
    const at = this.#stopped ? null : due(this.saving, this.#pace);
    if (at === null) return;
    const wait = Math.max(0, at - Date.now());
    this.#timer = setTimeout(() => void this.flush().catch(() => undefined), wait);
  }
}

/** HTTP statuses after which the save is retried. */
const PASSING = [408, 425, 429];

/**
 * Whether the service has refused the text, so that a retry is useless. Server errors and
 * proxy pages are not a refusal; `changed` means a version conflict.
 */
function isRefusal({ status, code }: ApiProblem): boolean {
  if (status < 400 || status >= 500 || PASSING.includes(status)) return false;
  return code !== "changed" && code !== "no_problem_body";
}
