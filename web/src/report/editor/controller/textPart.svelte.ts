// One text of the page (the report or the addendum draft): the saved version, the version in
// the editor, and text kept in the browser.
import type { Editor } from "@tiptap/core";
import type { Entry, Journal } from "../saving/journal";
import { TextSaver } from "../saving/textSaver.svelte";
import { recovery } from "../saving/recovery";
import { replaceAll, showDocument } from "../text/commands";
import { fromEditor } from "../text/conversion";
import { canonical, type ReportDocument } from "../text/document";

export interface PartOptions {
  name: string;
  document: ReportDocument;
  journal: Journal | null;
  version: () => number;
  onJournalFailed: () => void;
  /** Saves; resolves with the saved document. */
  send: (content: ReportDocument) => Promise<void>;
}

/** The number of unconfirmed saves that are remembered. */
const MAX_UNCONFIRMED = 10;

export class TextPart {
  readonly name: string;
  readonly saver: TextSaver;
  editor = $state.raw<Editor | null>(null);
  /** The saved document, if it differs from the shown text. */
  theirs = $state.raw<ReportDocument | null>(null);
  /** Text kept in the browser that is not in the report. */
  kept = $state.raw<Entry<ReportDocument> | null>(null);
  restoredAt = $state<number | null>(null);
  /** Whether the text is being discarded: it is neither editable nor saved. */
  discarding = $state(false);
  readonly #options: PartOptions;
  #stored: string;
  #sending = "";
  /** Texts of unconfirmed saves: the service may have stored any of them. */
  #unconfirmed: string[] = [];
  #shown: ReportDocument;

  constructor(options: PartOptions) {
    this.#options = options;
    this.name = options.name;
    this.#shown = options.document;
    this.#stored = canonical(options.document);
    this.saver = new TextSaver({
      part: options.name,
      journal: options.journal,
      content: () => this.content(),
      version: options.version,
      onJournalFailed: options.onJournalFailed,
      send: (content) => this.#send(content),
    });
  }

  get document(): ReportDocument {
    return this.#shown;
  }

  /** Whether there is unsaved text. */
  get unsaved(): boolean {
    return this.saver.dirty && !this.discarding;
  }

  content(): ReportDocument {
    return this.editor ? fromEditor(this.editor.state.doc) : this.#shown;
  }

  /** Detaches the editor; its last text is kept for saving. */
  detach(): void {
    this.#shown = this.content();
    this.editor = null;
  }

  /**
   * Restores text kept in the browser; call it after the editor was created, and again when the
   * text becomes editable. Then text of windows that are still open belongs to it too: they have
   * handed over writing.
   */
  async recover(writable: boolean, { openWindows = false } = {}): Promise<void> {
    const { journal, name, version } = this.#options;
    const read = journal?.read<ReportDocument>(name, { openWindows });
    const entry = (await read?.catch(() => null)) ?? null;
    if (entry && writable) this.kept = null;
    const found = recovery(entry, { text: this.#stored, version: version(), writable });
    // Text typed while the journal was read is not overwritten; the user decides.
    const typed = canonical(this.content()) !== this.#stored;
    const what = found === "restore" && typed ? "ask" : found;
    if (what === "forget" && entry) await this.#forget(entry);
    if (what === "restore" && entry && this.editor) {
      this.restoredAt = entry.at;
      await this.#restore(entry);
    }
    if (what === "ask" && entry) this.kept = entry;
  }

  /** Puts a kept text into the editor. Its entry is removed once this window has stored the text. */
  async #restore(entry: Entry<ReportDocument>): Promise<void> {
    if (!this.editor) return;
    replaceAll(this.editor, entry.content);
    await this.saver.writeJournal();
    await this.#forget(entry);
  }

  async #forget(entry: Entry<ReportDocument>): Promise<void> {
    await this.#options.journal?.forget(entry).catch(() => undefined);
  }

  /** This window may write again: saves text that was refused while another window wrote. */
  resume(): void {
    const { phase, reason } = this.saver.saving;
    if (phase === "refused" && reason === "being_edited" && !this.theirs) this.saver.resume();
  }

  /** Shows a document from the service, unless there is unsaved text. */
  take(document: ReportDocument): void {
    const next = canonical(document);
    if (next === this.#stored) return;
    const shown = canonical(this.content());
    const earlier = this.#unconfirmed.includes(next) && this.saver.dirty && next !== shown;
    if (next === this.#sending || earlier) {
      this.#stored = next;
    } else if (next === shown) {
      this.#stored = next;
      void this.saver.markSaved();
    } else if (this.saver.dirty) {
      this.theirs = document;
      this.saver.refuse("version_conflict");
    } else this.show(document);
  }

  /** Whether a document of the service was saved by this page or was known before. */
  isStored(document: ReportDocument): boolean {
    const text = canonical(document);
    return text === this.#stored || this.#unconfirmed.includes(text);
  }

  /** Replaces the text by the document of the service. */
  show(document: ReportDocument): void {
    this.#stored = canonical(document);
    this.#shown = document;
    this.theirs = null;
    if (this.editor) showDocument(this.editor, document);
    void this.saver.markSaved();
  }

  /** Keeps the text of this page and overwrites the saved one. */
  insist(): void {
    if (this.theirs) this.#stored = canonical(this.theirs);
    this.theirs = null;
    this.saver.resume();
  }

  /** Restores or discards text kept in the browser. */
  async decideKept(use: boolean): Promise<void> {
    const kept = this.kept;
    this.kept = null;
    if (use && kept) await this.#restore(kept);
    else if (kept) await this.#forget(kept);
  }

  /** Locks the text while an action discards it; if the action fails, the text is unchanged. */
  async throwAway(action: () => Promise<void>): Promise<void> {
    this.discarding = true;
    const release = await this.saver.suspend();
    try {
      await action();
      await this.saver.markSaved();
    } finally {
      this.discarding = false;
      release();
    }
  }

  stop(): void {
    this.saver.stop();
  }

  async #send(content: ReportDocument): Promise<void> {
    const text = (this.#sending = canonical(content));
    this.#unconfirmed = [...this.#unconfirmed, text].slice(-MAX_UNCONFIRMED);
    try {
      await this.#options.send(content);
    } finally {
      this.#sending = "";
    }
    this.#unconfirmed = [];
    this.#stored = text;
  }
}
