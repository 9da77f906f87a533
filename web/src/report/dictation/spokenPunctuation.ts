// Converts recognized speech to written text: spoken punctuation becomes punctuation with spacing.
import { commandsOf } from "./spokenCommands";
import { leadingWords } from "./determiners";

/** The text before the caret on its line. */
export interface Caret {
  before: string;
}

const NO_SPACE = /^(?:zh|ja)/;

interface Piece {
  text: string;
  /** Whether it follows, or precedes, other text without a space. */
  glueLeft: boolean;
  glueRight: boolean;
}

const escaped = (words: string) => words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Splits recognized text into words and commands; the longest command has precedence. */
function pieces(heard: string, language: string, spaced: boolean): Piece[] {
  const commands = commandsOf(language);
  const leading = leadingWords(language).join("|");
  const nounless = leading ? `(?<!(?<![\\p{L}\\p{N}])(?:${leading})\\s+)` : "";
  const byLength = [...commands].sort((a, b) => b.spoken.length - a.spoken.length);
  const alternatives = byLength.map((command) => escaped(command.spoken).replaceAll(" ", "\\s+"));
  const edge = spaced ? [`(?<![\\p{L}\\p{N}])${nounless}`, "(?![\\p{L}\\p{N}])"] : ["", ""];
  const pattern = new RegExp(`${edge[0]}(${alternatives.join("|")})${edge[1]}[.,]?`, "giu");
  const found: Piece[] = [];
  const words = (text: string) => {
    if (text.trim()) found.push({ text: text.trim(), glueLeft: false, glueRight: false });
  };
  let at = 0;
  for (const match of heard.matchAll(pattern)) {
    const spoken = (match[1] ?? "").toLocaleLowerCase().replace(/\s+/g, " ");
    const command = byLength.find((one) => one.spoken.toLocaleLowerCase() === spoken);
    if (!command) continue;
    words(heard.slice(at, match.index));
    const { written, glue = "left" } = command;
    found.push({ text: written, glueLeft: glue !== "right", glueRight: glue !== "left" });
    at = match.index + match[0].length;
  }
  words(heard.slice(at));
  return found;
}

const SENTENCE_END = /(?:^|[.!?。！？\n:]\s*)$/u;

function capital(text: string, language: string): string {
  const first = [...text][0] ?? "";
  return first.toLocaleUpperCase(language) + text.slice(first.length);
}

/** Returns the text to insert at the caret; lines are separated by "\n". */
export function written(heard: string, language: string, caret: Caret): string {
  const spaced = !NO_SPACE.test(language);
  let text = "";
  let glued = caret.before === "" || /[\s([“„«/-]$/u.test(caret.before);
  for (const piece of pieces(heard, language, spaced)) {
    const all = caret.before + text;
    const word = /^\p{L}/u.test(piece.text);
    const whole = word && SENTENCE_END.test(all) ? capital(piece.text, language) : piece.text;
    if (/^[.。]$/.test(piece.text) && /[.!?。！？]$/.test(all)) continue; // the text ends with a mark already
    // Punctuation that the recognizer wrote itself attaches to the previous word.
    const mark = /^[.,;:!?)\]]/.test(piece.text);
    text += glued || !spaced || piece.glueLeft || mark ? whole : ` ${whole}`;
    glued = piece.glueRight;
  }
  return text;
}
