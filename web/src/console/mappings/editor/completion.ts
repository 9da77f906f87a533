// What completion offers at the caret of a definition.
import { scoreOf } from "../../ui/listbox";
import { contextAt } from "./cursorContext";
import { choicesAt, takesPlaces, type Schema } from "./schemaChoices";

/** The data that completion uses. */
export interface Knowledge {
  schema: Schema | null;
  kind: string;
  /** Field paths of the test message with a sample value each. */
  places: readonly { place: string; text: string }[];
  /** Files and code tables that a definition can refer to. */
  files: readonly string[];
}

export interface Option {
  label: string;
  /** What is inserted. */
  insert: string;
  /** Beside the label. */
  detail?: string;
  /** A description of the chosen option. */
  info?: string;
}

export interface Completion {
  /** The offset of the word that an option replaces. */
  from: number;
  options: Option[];
}

const WORD = /^[\w\-.^[\]=]*$/;
const MOST_OPTIONS = 100;

/** Returns what fits at an offset; without a word only if it is asked for. */
export function complete(
  text: string,
  at: number,
  isAsked: boolean,
  known: Knowledge,
): Completion | null {
  const { path, expects, word, from } = contextAt(text, at);
  if (!known.schema || (!isAsked && word === "") || !WORD.test(word)) return null;
  const last = path.at(-1);
  const keys = expects !== "value" || word === "";
  const words = expects !== "key";
  const options: Option[] = choicesAt(known.schema, path, known.kind)
    .filter((choice) => (choice.key ? keys && expects !== "value" : words))
    .map(({ label, key, detail }) => ({
      label,
      insert: key ? `${label}: ` : label,
      info: detail,
    }));
  if (words && takesPlaces(known.schema, path, known.kind)) {
    options.push(
      ...known.places.map(({ place, text: value }) => ({
        label: place,
        insert: place,
        detail: value.slice(0, 30),
      })),
    );
  }
  if (words && typeof last === "string") options.push(...namesFor(last, known.files));
  if (words && typeof last === "number" && path.at(-2) === "include")
    options.push(...namesFor("include", known.files));
  const found = options
    .map((option) => ({ option, score: scoreOf({ id: "", title: option.label }, word) }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .slice(0, MOST_OPTIONS)
    .map(({ option }) => option);
  return found.length ? { from, options: found } : null;
}

function namesFor(key: string, files: readonly string[]): Option[] {
  const table = /^codes\/(.+)\.csv$/;
  const wanted = files.flatMap((file) => {
    if (key === "include") return file.endsWith(".yaml") ? [file] : [];
    return key.startsWith("codes") ? (table.exec(file)?.slice(1, 2) ?? []) : [];
  });
  return wanted.map((label) => ({ label, insert: label }));
}
