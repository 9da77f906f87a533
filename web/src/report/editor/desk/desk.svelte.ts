// The report's page as it stands: its state, its texts, and the deeds that change it. Every deed
// answers with the new state; what may be done is what the engine permits (`can`).
import { ApiProblem } from "../../../shared/api/client";
import { coalesce, withTimeout } from "../../../shared/api/callOrder";
import type { Deed, Endpoints } from "../endpoints";
import type { Choices, Control, Finding, Macro, Page } from "../page";
import { openJournal, type Journal } from "../saving/journal";
import { canonical, type ReportDocument } from "../text/document";
import { TextPart } from "./part.svelte";

export type View = "loading" | "report" | "closed" | "ended" | "failed";

export interface Said {
  /** A key of the catalogue, or the engine's own words. */
  key: string;
  words: string;
  mood: "good" | "bad";
}

/** What has to be answered before a text is signed. Without findings it is the question itself. */
export interface SignQuestion {
  part: TextPart;
  findings: Finding[];
  sign: () => Promise<void>;
}

const MACROS_WITHIN = 2000; // ms: a text can be written without them as well
/** An action without an answer is reported after this many milliseconds; it goes on. */
const TOLD_AFTER = 4000;
/** How long typed text may take to be saved before another window takes the writing over. */
const HANDOVER_WITHIN = 2000;
/** Nobody took over within this time: this window writes on. */
const HANDED_OVER_WITHIN = 6000;
/** A browser whose storage does not answer within this time is used as one without storage. */
const JOURNAL_WITHIN = 3000;
/** The engine's codes that mean: what is shown is not what there is. */
const STALE = ["version_conflict", "being_edited", "forbidden", "report_signed", "already_signed"];

export class Desk {
  view = $state<View>("loading");
  page = $state.raw<Page | null>(null);
  report = $state.raw<TextPart | null>(null);
  addendum = $state.raw<TextPart | null>(null);
  said = $state.raw<Said | null>(null);
  busy = $state(false);
  question = $state.raw<SignQuestion | null>(null);
  macros = $state.raw<Macro[]>([]);
  journaled = $state(true);
  /** Whether the writing is being given to another window: nothing is typed any more. */
  yielding = $state(false);
  readonly endpoints: Endpoints;
  #journal: Journal | null = null;
  #template: number | null = null;
  #ahead = 0;

  constructor(endpoints: Endpoints) {
    this.endpoints = endpoints;
  }

  /** The engine's clock. */
  get now(): number {
    return Date.now() + this.#ahead;
  }

  get editable(): boolean {
    return this.can("edit") && !this.yielding;
  }

  get unsaved(): boolean {
    return [this.report, this.addendum].some((each) => each?.unsaved);
  }

  get #sending(): boolean {
    return [this.report, this.addendum].some((each) => each?.keeper.saving.phase === "saving");
  }

  /** Whether text cannot be saved at present. */
  get failing(): boolean {
    return [this.report, this.addendum].some((each) => {
      const { trouble = "", phase = "" } = each?.keeper.saving ?? {};
      return trouble !== "" || phase === "refused";
    });
  }

  can(control: Control): boolean {
    return this.view === "report" && (this.page?.can.includes(control) ?? false);
  }

  /** Loads the report and opens its text. */
  async open(): Promise<void> {
    const macros = withTimeout(MACROS_WITHIN, this.loadMacros());
    const page = await this.endpoints.load();
    await macros; // a trigger that is typed before they are there would stay as it is
    const journal = await withTimeout(JOURNAL_WITHIN, openJournal(page.reportId, page.journalKey));
    this.#journal = journal ?? null;
    this.journaled = this.#journal !== null;
    this.report = new TextPart({
      name: "report",
      document: page.document,
      journal: this.#journal,
      version: () => this.page?.version ?? 0,
      unkept: () => (this.journaled = false),
      send: (content) => this.#saveReport(content),
    });
    this.view = "report";
    this.adopt(page);
  }

  async loadMacros(): Promise<void> {
    const found = await this.endpoints.macros().catch(() => null);
    this.macros = found?.macros ?? this.macros;
  }

  /** Takes a state of the page; an answer that was overtaken is passed over. */
  adopt(page: Page): void {
    if (this.page && page.now < this.page.now) return;
    this.#ahead = page.now - Date.now();
    const reading = this.page !== null && !this.editable;
    this.page = page;
    if (!page.writable) this.yielding = false;
    this.report?.take(page.document);
    if (reading && this.editable) this.report?.writable();
    if (this.editable) this.report?.goOn();
    this.#adoptAddendum(page);
  }

  #adoptAddendum(page: Page): void {
    const draft = page.addenda.findLast((each) => each.state === "draft");
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
      unkept: () => (this.journaled = false),
      send: (content) => this.#saveAddendum(content),
    });
  }

  #draft() {
    return this.page?.addenda.findLast((each) => each.state === "draft");
  }

  /** Looks again, once nothing is on its way: a change may be heard while a text is saved. */
  readonly refresh = coalesce(() => this.#look());

  async #look(): Promise<void> {
    await this.report?.keeper.settled();
    await this.addendum?.keeper.settled();
    if (this.view !== "report") return;
    try {
      this.adopt(await this.endpoints.load());
    } catch (error) {
      this.#notice(error);
    }
  }

  /** Says that the page is there still, and looks again if there is something new. */
  async keepPresent(): Promise<void> {
    if (this.view !== "report") return;
    try {
      const seen = await this.endpoints.presence();
      const page = this.page;
      if (!page || this.#sending) return await this.refresh();
      const same = seen.version === page.version && seen.status === page.status;
      const writer = seen.writer?.name === page.writer?.name;
      if (!same || seen.writable !== page.writable || !writer) await this.refresh();
      else if (seen.writable) this.report?.goOn();
      this.report?.keeper.retry();
      this.addendum?.keeper.retry();
    } catch (error) {
      this.#notice(error);
    }
  }

  /**
   * Another window takes the writing over: saves what is typed, within a bounded time, and tells
   * the engine so. Where nobody takes over after all, this window writes on.
   */
  async handOver(save: () => Promise<void>): Promise<void> {
    if (this.view !== "report" || this.yielding) return;
    this.yielding = true;
    await withTimeout(HANDOVER_WITHIN, save()).catch(() => undefined);
    this.note();
    await this.endpoints.handedOver().catch(() => undefined);
    setTimeout(() => (this.yielding = false), HANDED_OVER_WITHIN);
  }

  #notice(error: unknown): void {
    if (!(error instanceof ApiProblem)) return;
    if (error.status === 401) this.end();
    if (error.code === "report_not_found" || error.status === 404) this.close();
  }

  /** The session is over: what is not saved stays on this computer. */
  end(): void {
    if (this.view !== "report") return;
    this.note();
    this.report?.keeper.refuse("session_ended");
    this.view = "ended";
  }

  /** The page goes: what is not saved is sent in the last moment, and the lease given back. */
  leave(): void {
    if (this.view !== "report") return;
    const { report, addendum, page } = this;
    const version = this.#draft()?.version;
    if (version !== undefined && addendum?.unsaved) {
      const saved = this.endpoints.saveAddendum(version, addendum.content(), { keepalive: true });
      void saved.catch(() => undefined);
    }
    if (report?.unsaved && page?.writable && report.keeper.saving.phase !== "refused") {
      void this.endpoints
        .saveAndLeave(page.version, report.content(), this.#template)
        .catch(() => undefined);
    } else void this.endpoints.leave().catch(() => undefined);
  }

  /** Writes what is not saved into the journals. */
  note(): void {
    void this.report?.keeper.note();
    void this.addendum?.keeper.note();
  }

  close(): void {
    this.report?.stop();
    this.addendum?.stop();
    this.view = "closed";
  }

  /** Keeps how the user wants to see reports; it is seen already, whatever becomes of this. */
  async prefer(choices: Choices): Promise<void> {
    try {
      await this.endpoints.choose(choices);
    } catch (error) {
      this.explain(error);
    }
  }

  say(key: string, mood: Said["mood"] = "good", words = ""): void {
    this.said = { key, words, mood };
  }

  /** The template that the text was made of goes with the next save. */
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
      if (problem?.code === "being_edited") this.adopt(await this.endpoints.load()); // says who writes
      throw error;
    }
    if (this.#template === template) this.#template = null;
  }

  async #saveAddendum(content: ReportDocument): Promise<void> {
    const send = () => this.endpoints.saveAddendum(this.#draft()?.version ?? 0, content);
    await this.#keep(this.addendum, content, send);
  }

  /**
   * Saves a text. When the engine has another version, that is one of our own saves without an
   * answer, or a change beside the text, and the save goes on; or another text, and a person decides.
   */
  async #keep(part: TextPart | null, content: ReportDocument, send: () => Promise<Page>) {
    try {
      return this.adopt(await send());
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.code !== "version_conflict") throw error;
      const page = await this.endpoints.load();
      const document =
        part === this.report
          ? page.document
          : page.addenda.findLast((each) => each.state === "draft")?.document;
      const own = document !== undefined && (part?.isStored(document) ?? false);
      this.adopt(page);
      if (document && canonical(document) === canonical(content)) return;
      if (!own) throw error;
      this.adopt(await send());
    }
  }

  /** Saves everything that is typed; rejects when that fails. */
  async flush(): Promise<void> {
    await this.report?.keeper.flush();
    await this.addendum?.keeper.flush();
  }

  /** Carries out a deed after saving; false, and said, when it fails. */
  act(deed: Deed, done: string): Promise<boolean> {
    return this.tell(() => this.perform(deed), done);
  }

  /** Takes the writing over. Nothing is saved before it: while another writes, nothing can be. */
  takeOver(): Promise<boolean> {
    return this.tell(() => this.carry(() => this.endpoints.takeOver()), "editor.yours");
  }

  /** Carries out what saves by itself, or saves nothing; false, and said, when it fails. */
  async tell(deed: () => Promise<void>, done: string): Promise<boolean> {
    this.busy = true;
    const telling = setTimeout(() => this.say("shell.slow", "bad"), TOLD_AFTER);
    try {
      await deed();
      this.say(done);
      return true;
    } catch (error) {
      this.explain(error);
      return false;
    } finally {
      clearTimeout(telling);
      this.busy = false;
    }
  }

  /** Carries out a deed after saving; rejects when it fails. */
  perform(deed: Deed): Promise<void> {
    return this.carry(async () => {
      await this.flush();
      return deed();
    });
  }

  /** Carries out a deed without saving; rejects when it fails. */
  async carry(deed: Deed): Promise<void> {
    try {
      const page = await deed();
      if (page) this.adopt(page);
    } catch (error) {
      const problem = error instanceof ApiProblem ? error : null;
      // Without an answer nobody knows whether it was done: the page shows what the engine has.
      if (problem?.status === 0) void this.refresh();
      if (problem && STALE.includes(problem.code)) await this.refresh();
      this.#notice(error);
      throw error;
    }
  }

  explain(error: unknown): void {
    const problem = error instanceof ApiProblem ? error : null;
    if (problem?.code === "checks_pending") return; // its dialog says what is to be looked at
    if (problem?.status === 0) this.say("shell.unreachable", "bad");
    else this.say("editor.failed", "bad", problem?.detail ?? "");
  }
}
