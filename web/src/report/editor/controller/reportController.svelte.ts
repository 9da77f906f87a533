// The controller of the report page: its state, its texts, and its actions. Every action
// returns the new state; the service decides which actions are permitted (`can`).
import { tick } from "svelte";
import { ApiProblem } from "../../../shared/api/client";
import { coalesce, withTimeout } from "../../../shared/api/callOrder";
import type { PageAction, Endpoints } from "../endpoints";
import type { Choices, Control, Finding, Macro, Page } from "../page";
import { openJournal, type Journal } from "../saving/journal";
import { tabName } from "../saving/tabName";
import { replaceAll } from "../text/commands";
import { canonical, type ReportDocument } from "../text/document";
import { TextPart } from "./textPart.svelte";

export type View = "loading" | "report" | "closed" | "ended" | "failed";

export interface StatusMessage {
  /** A key of the catalogue; the report service's own text has precedence. */
  key: string;
  text: string;
  kind: "good" | "bad";
}

/** The question before signing a text; without findings it is a confirmation. */
export interface SignQuestion {
  part: TextPart;
  findings: Finding[];
  sign: () => Promise<void>;
}

/** After this time the text opens without macros. */
const MACROS_TIMEOUT_MS = 2000;
/** The user is notified of an action without a response after this time; the action continues. */
const SLOW_AFTER_MS = 4000;
/** The time limit for saving before another window takes over. */
const HANDOVER_SAVE_MS = 2000;
/** If no window takes over within this time, this window continues. */
const HANDOVER_TIMEOUT_MS = 6000;
/** A browser whose storage does not respond within this time is treated as one without storage. */
const JOURNAL_TIMEOUT_MS = 3000;
/** Error codes that mean that the shown state is outdated. */
const STALE = ["version_conflict", "being_edited", "forbidden", "report_signed", "already_signed"];

/** Texts for refusals; the texts of the service are English, for integrators. */
const PROBLEM_TEXTS: Readonly<Record<string, string>> = {
  already_signed: "editor.refused_signed",
  being_edited: "editor.refused_edited",
  cooling_elapsed: "editor.refused_elapsed",
  empty_addendum: "editor.refused_empty",
  forbidden: "editor.refused_forbidden",
  report_signed: "editor.refused_signed",
  signing_prohibited: "sign.checks_prohibit",
  version_conflict: "editor.conflict",
};

/**
 * True if the service read `page` before `other`. The version decides first, which every change of
 * the report counts: `now` is the time at which a request arrived, and the service may execute
 * simultaneous requests in another order.
 */
const isOlder = (page: Page, other: Page): boolean =>
  page.version === other.version ? page.now < other.now : page.version < other.version;

const problemText = (code: string): string => PROBLEM_TEXTS[code] ?? "editor.failed";

export class ReportController {
  view = $state<View>("loading");
  page = $state.raw<Page | null>(null);
  report = $state.raw<TextPart | null>(null);
  addendum = $state.raw<TextPart | null>(null);
  status = $state.raw<StatusMessage | null>(null);
  busy = $state(false);
  question = $state.raw<SignQuestion | null>(null);
  macros = $state.raw<Macro[]>([]);
  journaled = $state(true);
  /** Whether another window is taking over: the text is not editable. */
  handingOver = $state(false);
  readonly endpoints: Endpoints;
  #journal: Journal | null = null;
  #template: number | null = null;
  #clockOffset = 0;
  /** Whether the user has left the page: it must not claim the report again. */
  #left = false;

  constructor(endpoints: Endpoints) {
    this.endpoints = endpoints;
  }

  /** The time of the service. */
  get now(): number {
    return Date.now() + this.#clockOffset;
  }

  get editable(): boolean {
    return this.can("edit") && !this.handingOver;
  }

  get unsaved(): boolean {
    return [this.report, this.addendum].some((part) => part?.unsaved);
  }

  get #sending(): boolean {
    return [this.report, this.addendum].some((part) => part?.saver.saving.phase === "saving");
  }

  /** Whether text cannot be saved at present. */
  get failing(): boolean {
    return [this.report, this.addendum].some((part) => {
      const { trouble = "", phase = "" } = part?.saver.saving ?? {};
      return trouble !== "" || phase === "refused";
    });
  }

  can(control: Control): boolean {
    return this.view === "report" && (this.page?.can.includes(control) ?? false);
  }

  /** Loads the report and opens its text. */
  async open(): Promise<void> {
    const macros = withTimeout(MACROS_TIMEOUT_MS, this.loadMacros());
    const page = await this.endpoints.open(tabName());
    await macros; // a trigger that is typed before the macros are loaded is not expanded
    const journal = await withTimeout(
      JOURNAL_TIMEOUT_MS,
      openJournal(page.reportId, page.journalKey),
    );
    this.#journal = journal ?? null;
    this.journaled = this.#journal !== null;
    this.report = new TextPart({
      name: "report",
      document: page.document,
      journal: this.#journal,
      version: () => this.page?.version ?? 0,
      onJournalFailed: () => (this.journaled = false),
      send: (content) => this.#saveReport(content),
    });
    this.view = "report";
    this.apply(page);
  }

  async loadMacros(): Promise<void> {
    const found = await this.endpoints.macros().catch(() => null);
    this.macros = found?.macros ?? this.macros;
  }

  /** Applies a state of the page; outdated responses are ignored. */
  apply(page: Page): void {
    if (this.page && isOlder(page, this.page)) return;
    this.#clockOffset = page.now - Date.now();
    const reading = this.page !== null && !this.editable;
    this.page = page;
    if (!page.writable) this.handingOver = false;
    this.report?.take(page.document);
    if (reading && this.editable) void this.report?.recover(true, { openWindows: true });
    if (this.editable) this.report?.resume();
    this.#applyAddendum(page);
  }

  #applyAddendum(page: Page): void {
    const draft = page.addenda.findLast((addendum) => addendum.state === "draft");
    const name = draft ? `addendum:${draft.number}` : "";
    if (draft && this.addendum?.name === name) this.addendum.take(draft.document);
    else {
      this.addendum?.stop();
      this.addendum = draft ? this.#newAddendum(name, draft.document) : null;
    }
  }

  #newAddendum(name: string, document: ReportDocument): TextPart {
    return new TextPart({
      name,
      document,
      journal: this.#journal,
      version: () => this.#draft()?.version ?? 0,
      onJournalFailed: () => (this.journaled = false),
      send: (content) => this.#saveAddendum(content),
    });
  }

  #draft() {
    return this.page?.addenda.findLast((addendum) => addendum.state === "draft");
  }

  /** Reloads the state when no save is running. */
  readonly refresh = coalesce(() => this.#reload());

  async #reload(): Promise<void> {
    await this.report?.saver.settled();
    await this.addendum?.saver.settled();
    if (this.view !== "report" || this.#left) return;
    try {
      this.apply(await this.endpoints.load());
    } catch (error) {
      this.#notice(error);
    }
  }

  /** Reports presence to the service, and reloads the state if it has changed. */
  async keepPresent(): Promise<void> {
    if (this.view !== "report" || this.#left) return;
    try {
      const seen = await this.endpoints.presence();
      const page = this.page;
      if (!page || this.#sending) return await this.refresh();
      const same = seen.version === page.version && seen.status === page.status;
      const writer = seen.writer?.name === page.writer?.name;
      if (!same || seen.writable !== page.writable || !writer) await this.refresh();
      else if (seen.writable) this.report?.resume();
      this.report?.saver.retry();
      this.addendum?.saver.retry();
    } catch (error) {
      this.#notice(error);
    }
  }

  /**
   * Another window takes over writing: saves the text within a time limit and notifies the
   * service. If no window takes over, this window continues.
   */
  async handOver(save: () => Promise<void>): Promise<void> {
    if (this.view !== "report" || this.handingOver) return;
    this.handingOver = true;
    await withTimeout(HANDOVER_SAVE_MS, save()).catch(() => undefined);
    await withTimeout(JOURNAL_TIMEOUT_MS, this.writeJournal()); // the other window reads it
    await this.endpoints.handedOver().catch(() => undefined);
    setTimeout(() => (this.handingOver = false), HANDOVER_TIMEOUT_MS);
  }

  #notice(error: unknown): void {
    if (!(error instanceof ApiProblem)) return;
    if (error.status === 401) this.end();
    if (error.code === "report_not_found" || error.status === 404) this.close();
  }

  /** The session has ended: unsaved text is kept in the browser. */
  end(): void {
    if (this.view !== "report") return;
    void this.writeJournal();
    this.report?.saver.refuse("session_ended");
    this.view = "ended";
  }

  /** The page closes: sends unsaved text and releases the lease. */
  leave(): void {
    if (this.view !== "report") return;
    this.#left = true;
    const { report, addendum, page } = this;
    const version = this.#draft()?.version;
    if (version !== undefined && addendum?.unsaved) {
      const saved = this.endpoints.saveAddendum(version, addendum.content(), { keepalive: true });
      void saved.catch(() => undefined);
    }
    if (report?.unsaved && page?.writable && report.saver.saving.phase !== "refused") {
      void this.endpoints
        .saveAndLeave(page.version, report.content(), this.#template)
        .catch(() => undefined);
    } else void this.endpoints.leave().catch(() => undefined);
  }

  /** The browser shows the page again from its memory. */
  async shownAgain(): Promise<void> {
    this.#left = false;
    await this.keepPresent();
  }

  /** Writes unsaved text to the journals. */
  async writeJournal(): Promise<void> {
    await Promise.all([this.report?.saver.writeJournal(), this.addendum?.saver.writeJournal()]);
  }

  close(): void {
    this.report?.stop();
    this.addendum?.stop();
    this.view = "closed";
  }

  /** Stores display preferences, which are already applied. */
  async prefer(choices: Choices): Promise<void> {
    try {
      await this.endpoints.choose(choices);
    } catch (error) {
      this.explain(error);
    }
  }

  showStatus(key: string, kind: StatusMessage["kind"] = "good", text = ""): void {
    this.status = { key, text, kind };
  }

  /** The next save names the template that was applied. */
  applied(template: number): void {
    this.#template = template;
  }

  async #saveReport(content: ReportDocument): Promise<void> {
    const template = this.#template;
    const send = (version: number) => this.endpoints.save(version, content, template);
    try {
      await this.#keep(this.report, content, () => send(this.page?.version ?? 0));
    } catch (error) {
      const problem = error instanceof ApiProblem ? error : null;
      if (problem?.code === "being_edited") this.apply(await this.endpoints.load()); // names the writer
      throw error;
    }
    if (this.#template === template) this.#template = null;
  }

  async #saveAddendum(content: ReportDocument): Promise<void> {
    const send = () => this.endpoints.saveAddendum(this.#draft()?.version ?? 0, content);
    await this.#keep(this.addendum, content, send);
  }

  /**
   * Saves a text. A version conflict can come from an earlier save of this page without a
   * response, or from a change of other data: then save again. Otherwise the user decides.
   */
  async #keep(part: TextPart | null, content: ReportDocument, send: () => Promise<Page>) {
    try {
      return this.apply(await send());
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.code !== "version_conflict") throw error;
      const page = await this.endpoints.load();
      const document =
        part === this.report
          ? page.document
          : page.addenda.findLast((addendum) => addendum.state === "draft")?.document;
      const own = document !== undefined && (part?.isStored(document) ?? false);
      this.apply(page);
      if (document && canonical(document) === canonical(content)) return;
      if (!own) throw error;
      this.apply(await send());
    }
  }

  /** Saves all unsaved text; rejects if that fails. */
  async flush(): Promise<void> {
    await this.report?.saver.flush();
    await this.addendum?.saver.flush();
  }

  /** Saves, then runs an action; shows the result and returns false if it failed. */
  act(action: PageAction, done: string): Promise<boolean> {
    return this.run(() => this.perform(action), done);
  }

  /** Replaces the text by one of its versions, in one step that can be undone. */
  restore(document: ReportDocument): void {
    const editor = this.report?.editor;
    if (!editor || !this.editable) return;
    replaceAll(editor, document);
    editor.view.focus();
    this.showStatus("panels.restored");
  }

  /** Takes over writing. It saves nothing first, because another window holds the lease. */
  takeOver(): Promise<boolean> {
    return this.thenWrite(
      this.run(() => this.performWithoutSaving(() => this.endpoints.takeOver()), "editor.yours"),
    );
  }

  /** After an action whose button disappears, the keys go to the text. */
  async thenWrite(action: Promise<boolean>, part = () => this.report): Promise<boolean> {
    const done = await action;
    await tick(); // until the text is editable
    if (done) part()?.editor?.view.focus();
    return done;
  }

  /** Runs an action without saving first; shows the result and returns false if it failed. */
  async run(action: () => Promise<void>, done: string): Promise<boolean> {
    this.busy = true;
    const slow = setTimeout(() => this.showStatus("shell.slow", "bad"), SLOW_AFTER_MS);
    try {
      await action();
      this.showStatus(done);
      return true;
    } catch (error) {
      this.explain(error);
      return false;
    } finally {
      clearTimeout(slow);
      this.busy = false;
    }
  }

  /** Saves, then runs an action; rejects if it fails. */
  perform(action: PageAction): Promise<void> {
    return this.performWithoutSaving(async () => {
      await this.flush();
      return action();
    });
  }

  /** Runs an action without saving; rejects if it fails. */
  async performWithoutSaving(action: PageAction): Promise<void> {
    try {
      const page = await action();
      if (page) this.apply(page);
    } catch (error) {
      const problem = error instanceof ApiProblem ? error : null;
      // Without a response the result is unknown, so reload the state.
      if (problem?.status === 0) void this.refresh();
      if (problem && STALE.includes(problem.code)) await this.refresh();
      this.#notice(error);
      throw error;
    }
  }

  explain(error: unknown): void {
    const problem = error instanceof ApiProblem ? error : null;
    if (problem?.code === "checks_pending") return; // the dialog shows the findings
    if (problem?.status === 0) this.showStatus("shell.unreachable", "bad");
    else this.showStatus(problemText(problem?.code ?? ""), "bad");
  }
}
