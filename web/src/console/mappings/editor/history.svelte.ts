// One history of changes over all files of a definition: of the form and of typing. Each file keeps its
// text with its own steps while another one is open; the log says whose step was the last one.
import { EditorText } from "./editorText.svelte";

export class EditHistory {
  #texts = new Map<string, EditorText>();
  #done = $state.raw<readonly string[]>([]);
  #undone = $state.raw<readonly string[]>([]);

  /** The file of the step that undo takes back; null if there is none. */
  get last(): string | null {
    return this.#done.at(-1) ?? null;
  }
  /** The file of the step that redo makes again. */
  get next(): string | null {
    return this.#undone.at(-1) ?? null;
  }

  /** The text of a file with its steps; without them if it was changed by something else since. */
  textOf(file: string, text: string): EditorText {
    const made = lasting(text);
    const kept = this.#texts.get(file);
    if (kept?.text === made.text) return kept;
    this.#done = this.#done.filter((one) => one !== file);
    this.#undone = this.#undone.filter((one) => one !== file);
    made.onstep = () => {
      this.#done = [...this.#done, file];
      this.#undone = [];
    };
    this.#texts.set(file, made);
    return made;
  }

  /** Notes that the last step of a file was taken back, or made again; `isMade`: there was one. */
  noteUndo(file: string, isMade: boolean): void {
    this.#done = withoutLast(this.#done, file);
    if (isMade) this.#undone = [...this.#undone, file];
  }
  noteRedo(file: string, isMade: boolean): void {
    this.#undone = withoutLast(this.#undone, file);
    if (isMade) this.#done = [...this.#done, file];
  }
}

/** A text that lives on when the editor that shows it is closed: its root is no component. */
function lasting(text: string): EditorText {
  let made: EditorText | undefined;
  $effect.root(() => {
    made = new EditorText(text);
  });
  return made ?? new EditorText(text);
}

function withoutLast(files: readonly string[], file: string): readonly string[] {
  const at = files.lastIndexOf(file);
  return at < 0 ? files : [...files.slice(0, at), ...files.slice(at + 1)];
}
