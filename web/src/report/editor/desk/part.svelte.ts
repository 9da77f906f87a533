// One text of the page (the report, or the addendum that is written): what the engine has, what
// the editor shows, what this computer kept.
import type { Editor } from "@tiptap/core";
import type { Entry, Journal } from "../saving/journal";
import { Keeper } from "../saving/keeper.svelte";
import { recovery } from "../saving/recovery";
import { replaceAll, showDocument } from "../text/commands";
import { fromEditor } from "../text/convert";
import { canonical, type ReportDocument } from "../text/document";

export interface PartOptions {
  name: string;
  document: ReportDocument;
  journal: Journal | null;
  version: () => number;
  unkept: () => void;
  /** Saves; resolves with the document that the engine has now. */
  send: (content: ReportDocument) => Promise<void>;
}

/** So many texts without an answer are remembered. */
const MOST_UNANSWERED = 10;

export class TextPart {
  readonly name: string;
  readonly keeper: Keeper;
  editor = $state.raw<Editor | null>(null);
  /** What the engine has, where that is not what is shown. */
  theirs = $state.raw<ReportDocument | null>(null);
  /** Text that this computer kept and that is not in the report. */
  kept = $state.raw<Entry<ReportDocument> | null>(null);
  restoredAt = $state<number | null>(null);
  /** Whether the text is being thrown away: nothing is typed any more, and nothing saved. */
  held = $state(false);
  readonly #options: PartOptions;
  #stored: string;
  #sending = "";
  /** Texts of saves without an answer: the engine may have any of them. */
  #unanswered: string[] = [];
  #shown: ReportDocument;

  constructor(options: PartOptions) {
    this.#options = options;
    this.name = options.name;
    this.#shown = options.document;
    this.#stored = canonical(options.document);
    this.keeper = new Keeper({
      part: options.name,
      journal: options.journal,
      content: () => this.content(),
      version: options.version,
      unkept: options.unkept,
      send: (content) => this.#send(content),
    });
  }

  get document(): ReportDocument {
    return this.#shown;
  }

  /** Whether something here is still to be saved. */
  get unsaved(): boolean {
    return this.keeper.dirty && !this.held;
  }

  content(): ReportDocument {
    return this.editor ? fromEditor(this.editor.state.doc) : this.#shown;
  }

  /** The editor goes; what it showed stays known, for whoever still has to keep it. */
  detach(): void {
    this.#shown = this.content();
    this.editor = null;
  }

  /** Puts back what this computer kept; to be called once the editor stands. */
  async recover(writable: boolean): Promise<void> {
    const { journal, name, version } = this.#options;
    const entry = (await journal?.read<ReportDocument>(name).catch(() => null)) ?? null;
    const stored = { document: this.#shown, version: version(), writable };
    const found = recovery(entry, stored);
    // What was typed while the journal was read is not overwritten: a person decides.
    const typed = canonical(this.content()) !== canonical(this.#shown);
    const what = found === "restore" && typed ? "ask" : found;
    if (what === "forget" && entry) await this.#forget(entry);
    if (what === "restore" && entry && this.editor) {
      this.restoredAt = entry.at;
      await this.#restore(entry);
    }
    if (what === "ask" && entry) this.kept = entry;
  }

  /** Puts a kept text into the editor. Its entry goes once this window has noted the text. */
  async #restore(entry: Entry<ReportDocument>): Promise<void> {
    if (!this.editor) return;
    replaceAll(this.editor, entry.content);
    await this.keeper.note();
    await this.#forget(entry);
  }

  async #forget(entry: Entry<ReportDocument>): Promise<void> {
    await this.#options.journal?.forget(entry).catch(() => undefined);
  }

  /** The text may be written from now on: what was kept for this version goes back by itself. */
  writable(): void {
    const kept = this.kept;
    if (!kept || !this.editor || kept.version !== this.#options.version()) return;
    this.kept = null;
    this.restoredAt = kept.at;
    void this.#restore(kept);
  }

  /** The text is this window's to write: what was refused while another one wrote is saved now. */
  goOn(): void {
    const { phase, reason } = this.keeper.saving;
    if (phase === "refused" && reason === "being_edited" && !this.theirs) this.keeper.resume();
  }

  /** The page's state brings this document: shows it, unless something else was typed. */
  take(document: ReportDocument): void {
    const next = canonical(document);
    if (next === this.#stored) return;
    const shown = canonical(this.content());
    const earlier = this.#unanswered.includes(next) && this.keeper.dirty && next !== shown;
    if (next === this.#sending || earlier) {
      this.#stored = next;
    } else if (next === shown) {
      this.#stored = next;
      void this.keeper.adopt();
    } else if (this.keeper.dirty) {
      this.theirs = document;
      this.keeper.refuse("version_conflict");
    } else this.show(document);
  }

  /** Whether the engine's document is one that came from here, or that it had before. */
  isStored(document: ReportDocument): boolean {
    const text = canonical(document);
    return text === this.#stored || this.#unanswered.includes(text);
  }

  /** Shows the engine's document in place of what stands here. */
  show(document: ReportDocument): void {
    this.#stored = canonical(document);
    this.#shown = document;
    this.theirs = null;
    if (this.editor) showDocument(this.editor, document);
    void this.keeper.adopt();
  }

  /** The text here stays, and is saved over the engine's. */
  insist(): void {
    if (this.theirs) this.#stored = canonical(this.theirs);
    this.theirs = null;
    this.keeper.resume();
  }

  /** Takes what this computer kept into the text, or forgets it. */
  async decideKept(use: boolean): Promise<void> {
    const kept = this.kept;
    this.kept = null;
    if (use && kept) await this.#restore(kept);
    else if (kept) await this.#forget(kept);
  }

  /** Holds the text while a deed throws it away; where that fails, it is there as before. */
  async throwAway(deed: () => Promise<void>): Promise<void> {
    this.held = true;
    const release = await this.keeper.hold();
    try {
      await deed();
      await this.keeper.adopt();
    } finally {
      this.held = false;
      release();
    }
  }

  stop(): void {
    this.keeper.stop();
  }

  async #send(content: ReportDocument): Promise<void> {
    const text = (this.#sending = canonical(content));
    this.#unanswered = [...this.#unanswered, text].slice(-MOST_UNANSWERED);
    try {
      await this.#options.send(content);
    } finally {
      this.#sending = "";
    }
    this.#unanswered = [];
    this.#stored = text;
  }
}
