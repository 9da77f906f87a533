// The user's draft of a definition, with test messages and their results.
// Every change is saved on the server and tried shortly after, so closing the page loses nothing.
import { ApiProblem } from "../../../shared/api/client";
import { api, attempt, problemOf, session, type Problem } from "../../data/api";
import { t } from "../../texts";
import { EditHistory } from "../editor/history.svelte";
import { toast } from "../../ui/toasts.svelte";
import { OUTBOUND } from "../types";
import type { Schema } from "../editor/schemaChoices";
import type { Change, OutlineRule } from "../rules/rules";
import { lastStored } from "../sampleMessages";
import type {
  ComposedReleases,
  Definition,
  Files,
  Issue,
  RuleEdit,
  SampleMessage,
  Saved,
  TrialResult,
  TrialResults,
} from "../types";

const SAVE_AFTER_MS = 350; // without further input
const MAX_PATHS = 400;

/** Unsaved changes, kept in the browser when the page closes. */
interface UnsavedChanges {
  files: Files;
  begunOn: string;
  revision: number;
}

/** Sample messages of a new sender, for the draft that is opened next. */
export const pendingSamples: { messages: SampleMessage[] } = { messages: [] };

const LAST_RELEASES = 10;
const LAST_MESSAGES = 10;

export class DefinitionDraft {
  readonly name: string;
  definition = $state.raw<Definition | null>(null);
  /** Why the definition could not be loaded. */
  problem = $state.raw<Problem | null>(null);
  /** The changed files of the draft. */
  files = $state.raw<Files>({});
  file = $state("");
  /** Increases when the open file was changed by something other than its editor. */
  epoch = $state(0);
  state = $state<"saved" | "unsaved" | "saving" | "failed">("saved");
  savedAt = $state<number | null>(null);
  revision = $state(0);
  begunOn = $state("");
  kind = $state("");
  issues = $state.raw<Issue[]>([]);
  needed = $state.raw<string[]>([]);
  messages = $state.raw<SampleMessage[]>([]);
  /** The destination whose last releases are composed instead of messages; "" for all of them. */
  releasesOf = $state<string | null>(null);
  /** The destinations that use an outbound definition. */
  destinations = $state.raw<readonly string[]>([]);
  /** What each result is about. */
  labels = $state.raw<readonly string[]>([]);
  chosen = $state(0);
  trials = $state.raw<TrialResult[]>([]);
  left = $state(0);
  /** Whether the results belong to an earlier text, because the current one has errors. */
  stale = $state(false);
  schema = $state.raw<Schema | null>(null);
  /** The rules of the draft by target. */
  outline = $state.raw<ReadonlyMap<string, OutlineRule>>(new Map());
  /** The steps of undo, of all files. */
  readonly history = new EditHistory();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #busy: Promise<void> = Promise.resolve();
  /** Whether another window has saved this draft. */
  windowConflict = $state(false);
  #trying: AbortController | null = null;
  #locks = $state(0);
  /** The person asked for releases, and hears if there are none. */
  #isAsked = false;

  constructor(name: string) {
    this.name = name;
  }

  get path(): string {
    return `/console/api/mappings/${encodeURIComponent(this.name)}`;
  }

  get #storageKey(): string {
    return `report-bridge.mapping ${this.name}`;
  }

  /** Returns the text of a file in the draft. */
  textOf(file: string): string {
    return this.files[file] ?? this.definition?.sources[file] ?? "";
  }

  get changed(): string[] {
    return Object.keys(this.files).sort();
  }

  get errors(): number {
    return this.issues.filter((issue) => issue.severity === "error").length;
  }

  /** The files of the definition; its own comes first. */
  get tree(): string[] {
    const own = `${this.name}.yaml`;
    const all = [own, ...(this.definition?.held ?? []), ...this.needed, ...this.changed];
    const rank = (file: string) => (file === own ? 0 : !file.includes("/") ? 1 : 2);
    return all
      .filter((file, index) => all.indexOf(file) === index)
      .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  }

  /** All files that a definition can refer to. */
  get known(): string[] {
    return Object.keys({ ...this.definition?.sources, ...this.files });
  }

  /** The fields with a value in the selected message, for completion. */
  get places(): { place: string; text: string }[] {
    const segments = this.trials[this.chosen]?.segments ?? [];
    return segments
      .flatMap(({ place, fields }) =>
        fields.map((text, index) => ({ place: `${place}-${index + 1}`, text })),
      )
      .filter((field) => field.text)
      .slice(0, MAX_PATHS);
  }

  /** Whether the text is about to be replaced; the editor accepts no input then. */
  get locked(): boolean {
    return this.#locks > 0;
  }

  open(): Promise<void> {
    return this.#reloadAfter(() => Promise.resolve(true));
  }

  /** Runs an action and reloads if it succeeded. The editor is locked, so no input is lost. */
  async #reloadAfter(action: () => Promise<boolean>): Promise<void> {
    this.#locks += 1;
    const read = (async () => (await action()) && (await this.#read()))();
    if (!(await read.finally(() => (this.#locks -= 1)))) return;
    this.schema ??= (await attempt(() => api.get<Schema>("/console/api/mapping-schema"))) ?? null;
    await Promise.all([this.tryOut(), this.#readOutline()]);
  }

  async #read(): Promise<boolean> {
    let found: Definition;
    try {
      found = await api.get<Definition>(this.path);
    } catch (error) {
      if (session.ended) return false;
      this.problem = problemOf(error);
      if (this.definition) toast({ text: this.problem.text, tone: "red" });
      return false;
    }
    this.problem = null;
    this.definition = found;
    this.files = found.draft?.files ?? {};
    this.revision = found.draft?.revision ?? 0;
    this.savedAt = found.draft?.saved_at ?? null;
    this.begunOn = found.draft?.begun_on ?? found.in_force?.version ?? "";
    this.state = "saved";
    this.windowConflict = false;
    this.#update(found);
    this.#restoreUnsaved();
    if (!this.tree.includes(this.file)) this.file = this.changed[0] ?? this.tree[0] ?? "";
    this.epoch += 1;
    return true;
  }

  #update(found: { kind: string; issues: Issue[]; needed: string[] }): void {
    this.kind = found.kind || this.kind;
    this.issues = found.issues;
    if (found.needed.length) this.needed = found.needed;
  }

  /** Sets the text of the open file; called by its editor. */
  edit(file: string, text: string): void {
    const others = Object.entries(this.files).filter(([name]) => name !== file);
    const same = text === this.definition?.sources[file];
    this.files = Object.fromEntries(same ? others : [...others, [file, text]]);
    this.state = "unsaved";
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.save(), SAVE_AFTER_MS);
  }

  /** Sets the text of a file and opens it in the editor. */
  replaceText(file: string, text: string): void {
    this.edit(file, text);
    this.file = file;
    this.epoch += 1;
  }

  /** Saves unsaved changes, one request at a time. */
  save(): Promise<void> {
    clearTimeout(this.#timer);
    this.#busy = this.#busy.then(() => this.#save());
    return this.#busy;
  }

  async #save(): Promise<void> {
    if (this.state === "saved") return;
    this.state = "saving";
    const files = this.files;
    const body = { files, begun_on: this.begunOn, revision: this.revision };
    try {
      const saved = await api.put<Saved>(`${this.path}/draft`, body);
      this.revision = saved.revision;
      this.savedAt = saved.saved_at;
      this.#update(saved);
      if (this.files === files) this.state = "saved";
    } catch (error) {
      this.state = "failed";
      const problem = error instanceof ApiProblem ? error : null;
      this.windowConflict = problem?.code === "saved_elsewhere";
      toast({ text: problem?.detail || t("unreachable"), tone: "red" });
      return;
    }
    await Promise.all([this.tryOut(), this.#readOutline()]);
  }

  async #readOutline(): Promise<void> {
    const { files } = this;
    const found = await attempt(
      () => api.get<{ rules: OutlineRule[] }>(`${this.path}/outline?version=draft`),
      () => undefined, // a definition without rules that can be read has no forms
    );
    if (found && this.files === files)
      this.outline = new Map(found.rules.map((rule) => [rule.target, rule]));
  }

  /** Keeps unsaved changes in the browser when the page closes; the next page saves them. */
  keepLocally(): void {
    if (this.state === "saved" || this.windowConflict) return;
    const unsaved: UnsavedChanges = {
      files: this.files,
      begunOn: this.begunOn,
      revision: this.revision,
    };
    localStorage.setItem(this.#storageKey, JSON.stringify(unsaved));
  }

  /** Restores changes kept by an earlier page, unless a later version was saved. */
  #restoreUnsaved(): void {
    const stored = localStorage.getItem(this.#storageKey);
    localStorage.removeItem(this.#storageKey);
    if (stored === null) return;
    const left = JSON.parse(stored) as UnsavedChanges;
    if (left.begunOn !== this.begunOn || this.revision > left.revision + 1) return;
    this.files = left.files;
    this.state = "unsaved";
    void this.save();
  }

  /** Tries the draft on the test messages and cancels a trial that is still running. */
  async tryOut(): Promise<void> {
    this.#trying?.abort();
    if (!this.messages.length && this.releasesOf === null) return;
    if (this.errors) {
      this.stale = true;
      // Results of an earlier text stay; without any, the active version shows what the messages give.
      if (this.trials[this.chosen]?.trace || !this.definition?.in_force) return;
    }
    const word = this.errors ? "active" : "draft";
    const trying = (this.#trying = new AbortController());
    const messages = this.messages.map(({ payload, listener, mapping = "", version = "" }) => ({
      payload,
      listener,
      mapping,
      version,
    }));
    try {
      const { signal } = trying;
      if (this.releasesOf === null) {
        const body = { word, messages, traced: this.chosen };
        const done = await api.post<TrialResults>(`${this.path}/try`, body, { signal });
        this.labels = this.messages.map(({ label }) => label);
        this.trials = done.trials;
        this.left = done.left;
      } else {
        const body = { word, destination: this.releasesOf, last: LAST_RELEASES };
        const done = await api.post<ComposedReleases>(`${this.path}/releases`, body, { signal });
        this.labels = done.trials.map(({ label }) => label);
        this.destinations = done.destinations;
        this.trials = done.trials;
        this.left = done.left;
        if (!done.trials.length && this.#isAsked)
          toast({ text: t("mappings.no_releases"), tone: "red" });
      }
      this.chosen = Math.min(this.chosen, Math.max(0, this.trials.length - 1));
      this.stale = word !== "draft";
    } catch {
      if (trying.signal.aborted) return;
      toast({ text: t("unreachable"), tone: "red" });
    }
  }

  /** Shows another message; its trace is made then. */
  async choose(index: number): Promise<void> {
    this.chosen = index;
    if (this.releasesOf === null && !this.trials[index]?.trace) await this.tryOut();
  }

  /** Shows the last messages of the listeners that use the definition, if there are any. */
  async showLast(): Promise<void> {
    if (this.messages.length || this.releasesOf !== null) return;
    if (this.kind === OUTBOUND) {
      await this.useReleases("", false);
      return;
    }
    const stored = await lastStored(this.path, LAST_MESSAGES);
    if (stored?.length && !this.messages.length) await this.setMessages(stored);
  }

  /** Asks for the edits that change one rule, and opens their file. */
  async changeRule(
    target: string,
    change: Change,
    report: (text: string) => void,
  ): Promise<RuleEdit | null> {
    const table = /^codes:(.+)$/.exec(target)?.[1];
    const file = table === undefined ? `${this.name}.yaml` : `codes/${table}.csv`;
    const text = this.textOf(file).replace(/\r\n?/g, "\n"); // as the editor has it
    const files = this.known.includes(file) ? { ...this.files, [file]: text } : this.files;
    const body = { files, target, change };
    const found = await attempt(() => api.post<RuleEdit>(`${this.path}/edits`, body), report);
    if (!found) return null;
    this.file = found.file;
    const others = [...this.outline].filter(([name]) => name !== target);
    this.outline = new Map(found.rule ? [...others, [target, found.rule]] : others);
    return found;
  }

  /** Replaces the test messages. */
  async setMessages(messages: SampleMessage[]): Promise<void> {
    this.messages = messages;
    this.releasesOf = null;
    this.chosen = 0;
    this.trials = [];
    if (messages.length === 0) toast({ text: t("mappings.no_messages"), tone: "red" });
    await this.tryOut();
  }

  /** Composes the last releases of a destination, or of all that use the definition. */
  async useReleases(destination: string, isAsked = true): Promise<void> {
    this.#isAsked = isAsked;
    this.messages = [];
    this.releasesOf = destination;
    this.chosen = 0;
    this.trials = [];
    await this.tryOut();
  }

  /** Replaces what another window saved by the text of this window. */
  async keepThisWindow(): Promise<void> {
    const found = await attempt(() => api.get<Definition>(this.path));
    if (!found) return;
    this.revision = found.draft?.revision ?? 0;
    this.windowConflict = false;
    this.state = "unsaved";
    await this.save();
  }

  /** Loads what another window saved; the text of this window is lost. */
  async loadOtherWindow(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#reloadAfter(() => this.#busy.then(() => true));
  }

  /** Discards the draft; if that fails, the unsaved changes are saved. */
  discard(): Promise<void> {
    clearTimeout(this.#timer);
    return this.#reloadAfter(async () => {
      await this.#busy;
      const gone = await attempt(() => api.delete(`${this.path}/draft`).then(() => true));
      if (!gone) void this.save();
      return gone ?? false;
    });
  }

  /** Rebases the draft on a newer version, which it then replaces. */
  async rebase(version: string): Promise<void> {
    this.begunOn = version;
    this.state = "unsaved";
    await this.change(() => Promise.resolve());
  }

  /** Saves the draft, then runs an action that changes the definition; not if saving failed. */
  change(action: () => Promise<void>): Promise<void> {
    return this.#reloadAfter(async () => {
      await this.save();
      if (this.state !== "saved") return false; // save() has shown the error; continuing would lose input
      await action();
      return true;
    });
  }
}
