// What is open on the workbench: a definition, its draft on the server, and messages to try it on.
// Every change is saved and tried a moment later; nothing of it depends on the page staying open.
import { announcements } from "../../shared/widgets/announcements.svelte";
import { ApiProblem } from "../../shared/api/client";
import { api, attempt } from "../api";
import { say } from "../words";
import type { Schema } from "./schema";
import type { Definition, Files, Issue, Message, Saved, Trial, Trials } from "./types";

const PAUSE = 350; // ms without a key before a draft is saved
const MOST_PLACES = 400;

/** What a page leaves behind that was not saved yet. */
interface Parting {
  files: Files;
  begunOn: string;
  revision: number;
}

/** Messages that another page leaves for the next workbench: those of a new sender. */
export const carried: { messages: Message[] } = { messages: [] };

export class Workbench {
  readonly name: string;
  definition = $state.raw<Definition | null>(null);
  /** The draft: files that differ from what it was begun on. */
  files = $state.raw<Files>({});
  file = $state("");
  /** Changes when the text of the open file came from elsewhere than its editor. */
  epoch = $state(0);
  state = $state<"saved" | "unsaved" | "saving" | "failed">("saved");
  savedAt = $state<number | null>(null);
  revision = $state(0);
  begunOn = $state("");
  kind = $state("");
  issues = $state.raw<Issue[]>([]);
  needed = $state.raw<string[]>([]);
  messages = $state.raw<Message[]>([]);
  chosen = $state(0);
  trials = $state.raw<Trial[]>([]);
  left = $state(0);
  /** Whether the trials are of an earlier text: the one at hand has mistakes. */
  stale = $state(false);
  schema = $state.raw<Schema | null>(null);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #busy: Promise<void> = Promise.resolve();
  /** Whether another window saved this draft meanwhile. */
  outrun = $state(false);
  #trying: AbortController | null = null;
  #holds = $state(0);

  constructor(name: string) {
    this.name = name;
  }

  get path(): string {
    return `/console/api/mappings/${encodeURIComponent(this.name)}`;
  }

  get #parting(): string {
    return `report-bridge.mapping ${this.name}`;
  }

  /** The text of a file, as the draft has it. */
  textOf(file: string): string {
    return this.files[file] ?? this.definition?.sources[file] ?? "";
  }

  get changed(): string[] {
    return Object.keys(this.files).sort();
  }

  get errors(): number {
    return this.issues.filter((each) => each.severity === "error").length;
  }

  /** The files that the definition consists of, its own first. */
  get tree(): string[] {
    const own = `${this.name}.yaml`;
    const all = [own, ...(this.definition?.held ?? []), ...this.needed, ...this.changed];
    const rank = (file: string) => (file === own ? 0 : !file.includes("/") ? 1 : 2);
    return all
      .filter((file, index) => all.indexOf(file) === index)
      .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  }

  /** Every file that could be referred to. */
  get known(): string[] {
    return Object.keys({ ...this.definition?.sources, ...this.files });
  }

  /** Places with a value in the messages at hand, for completion. */
  get places(): { place: string; text: string }[] {
    const segments = this.trials[this.chosen]?.segments ?? [];
    return segments
      .flatMap(({ place, fields }) =>
        fields.map((text, index) => ({ place: `${place}-${index + 1}`, text })),
      )
      .filter((each) => each.text)
      .slice(0, MOST_PLACES);
  }

  /** Whether another text is about to take the place of this one: nothing is typed meanwhile. */
  get held(): boolean {
    return this.#holds > 0;
  }

  open(): Promise<void> {
    return this.#openAfter(() => Promise.resolve(true));
  }

  /** Opens anew where a deed went well; what would be typed until then would be lost. */
  async #openAfter(deed: () => Promise<boolean>): Promise<void> {
    this.#holds += 1;
    const read = (async () => (await deed()) && (await this.#read()))();
    if (!(await read.finally(() => (this.#holds -= 1)))) return;
    this.schema ??= (await attempt(() => api.get<Schema>("/console/api/mapping-schema"))) ?? null;
    await this.tryOut();
  }

  async #read(): Promise<boolean> {
    const found = await attempt(() => api.get<Definition>(this.path));
    if (!found) return false;
    this.definition = found;
    this.files = found.draft?.files ?? {};
    this.revision = found.draft?.revision ?? 0;
    this.savedAt = found.draft?.saved_at ?? null;
    this.begunOn = found.draft?.begun_on ?? found.in_force?.version ?? "";
    this.state = "saved";
    this.outrun = false;
    this.#learn(found);
    this.#resume();
    if (!this.tree.includes(this.file)) this.file = this.changed[0] ?? this.tree[0] ?? "";
    this.epoch += 1;
    return true;
  }

  #learn(found: { kind: string; issues: Issue[]; needed: string[] }): void {
    this.kind = found.kind || this.kind;
    this.issues = found.issues;
    if (found.needed.length) this.needed = found.needed;
  }

  /** Takes a change of the open file from its editor. */
  edit(file: string, text: string): void {
    const others = Object.entries(this.files).filter(([name]) => name !== file);
    const same = text === this.definition?.sources[file];
    this.files = Object.fromEntries(same ? others : [...others, [file, text]]);
    this.state = "unsaved";
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.save(), PAUSE);
  }

  /** Takes a text from elsewhere than the editor. */
  put(file: string, text: string): void {
    this.edit(file, text);
    this.file = file;
    this.epoch += 1;
  }

  /** Saves what is not saved; one request at a time. */
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
      this.#learn(saved);
      if (this.files === files) this.state = "saved";
    } catch (error) {
      this.state = "failed";
      const problem = error instanceof ApiProblem ? error : null;
      this.outrun = problem?.code === "saved_elsewhere";
      announcements.say(problem?.detail || say("unreachable"), "bad");
      return;
    }
    await this.tryOut();
  }

  /** Keeps what is not saved yet while the page is being left, for the next one to save. */
  leave(): void {
    if (this.state === "saved" || this.outrun) return;
    const words: Parting = { files: this.files, begunOn: this.begunOn, revision: this.revision };
    localStorage.setItem(this.#parting, JSON.stringify(words));
  }

  /** Takes up what an earlier page left, unless more was saved since. */
  #resume(): void {
    const words = localStorage.getItem(this.#parting);
    localStorage.removeItem(this.#parting);
    if (words === null) return;
    const left = JSON.parse(words) as Parting;
    if (left.begunOn !== this.begunOn || this.revision > left.revision + 1) return;
    this.files = left.files;
    this.state = "unsaved";
    void this.save();
  }

  /** Tries the draft on the messages at hand; an earlier trial under way is given up. */
  async tryOut(): Promise<void> {
    this.#trying?.abort();
    if (!this.messages.length) return;
    if (this.errors) {
      this.stale = true;
      return;
    }
    const trying = (this.#trying = new AbortController());
    const messages = this.messages.map(({ payload, listener, mapping = "", version = "" }) => ({
      payload,
      listener,
      mapping,
      version,
    }));
    try {
      const body = { word: "draft", messages };
      const { signal } = trying;
      const done = await api.post<Trials>(`${this.path}/try`, body, { signal });
      this.trials = done.trials;
      this.left = done.left;
      this.stale = false;
    } catch {
      if (trying.signal.aborted) return;
      announcements.say(say("unreachable"), "bad");
    }
  }

  /** Takes other messages to try on. */
  async take(messages: Message[]): Promise<void> {
    this.messages = messages;
    this.chosen = 0;
    this.trials = [];
    if (messages.length === 0) announcements.say(say("mappings.no_messages"), "bad");
    await this.tryOut();
  }

  /** Lets this window's text take the place of what another window saved. */
  async keepMine(): Promise<void> {
    const found = await attempt(() => api.get<Definition>(this.path));
    if (!found) return;
    this.revision = found.draft?.revision ?? 0;
    this.outrun = false;
    this.state = "unsaved";
    await this.save();
  }

  /** Takes what another window saved; this window's text is gone. */
  async takeTheirs(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#openAfter(() => this.#busy.then(() => true));
  }

  /** Throws the draft away; where that fails, what was typed is saved after all. */
  discard(): Promise<void> {
    clearTimeout(this.#timer);
    return this.#openAfter(async () => {
      await this.#busy;
      const gone = await attempt(() => api.delete(`${this.path}/draft`).then(() => true));
      if (!gone) void this.save();
      return gone ?? false;
    });
  }

  /** Says that the draft is to replace a newer version than it was begun on. */
  async rebase(version: string): Promise<void> {
    this.begunOn = version;
    this.state = "unsaved";
    await this.change(() => Promise.resolve());
  }

  /** Carries out what changes what there is, on text that is saved; without that, not. */
  change(deed: () => Promise<void>): Promise<void> {
    return this.#openAfter(async () => {
      await this.save();
      if (this.state !== "saved") return false; // it was said why: what is typed would be lost
      await deed();
      return true;
    });
  }
}
