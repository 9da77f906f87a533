// Speech recognition by the browser (Web Speech API), if available.
import type { Hearing, Recognizer } from "./recognizer";

interface Result {
  readonly isFinal: boolean;
  readonly [index: number]: { readonly transcript: string };
}

interface ResultEvent {
  readonly resultIndex: number;
  readonly results: ArrayLike<Result>;
}

interface Recognition {
  lang: string;
  continuous: boolean;
  interimResults: boolean;
  onresult: ((event: ResultEvent) => void) | null;
  onerror: ((event: { readonly error: string }) => void) | null;
  onend: (() => void) | null;
  start(track?: MediaStreamTrack): void;
  stop(): void;
}

export type RecognitionMaker = new () => Recognition;

/** Returns the browser's recognizer, or null if it has none. */
export function recognitionOf(window: object): RecognitionMaker | null {
  const own = window as Partial<Record<string, RecognitionMaker>>;
  return own["SpeechRecognition"] ?? own["webkitSpeechRecognition"] ?? null;
}

/** Errors that silence and stopping cause; recognition continues. */
const IGNORED = ["no-speech", "aborted"];
const DENIED = ["not-allowed"];
/** Recognizers use the region for Chinese in traditional characters. */
const tag = (language: string) => (language === "zh-Hant" ? "zh-TW" : language);

export function browserRecognizer(maker: RecognitionMaker, patience = 3000): Recognizer {
  let recognition: Recognition | null = null;
  let wanted = false;
  let ended: () => void = () => undefined;

  function begin(hearing: Hearing): Recognition {
    const made = new maker();
    Object.assign(made, { lang: tag(hearing.language), continuous: true, interimResults: true });
    made.onresult = ({ results, resultIndex }) => {
      let guess = "";
      for (const result of Array.from(results).slice(resultIndex)) {
        const words = result[0]?.transcript ?? "";
        if (result.isFinal) hearing.heard(words);
        else guess += words;
      }
      hearing.guessed(guess);
    };
    made.onerror = ({ error }) => {
      if (IGNORED.includes(error)) return;
      wanted = false;
      hearing.failed(DENIED.includes(error) ? "denied" : "no_recognizer");
    };
    // Browsers stop after a silence: restart while dictation is on.
    made.onend = () => {
      if (wanted) made.start(hearing.stream.getAudioTracks()[0]);
      else ended();
    };
    return made;
  }

  return {
    start(hearing) {
      wanted = true;
      recognition = begin(hearing);
      recognition.start(hearing.stream.getAudioTracks()[0]);
    },
    async stop() {
      if (!wanted) return;
      wanted = false;
      await new Promise<void>((resolve) => {
        ended = resolve;
        setTimeout(resolve, patience);
        recognition?.stop();
      });
      recognition = null;
    },
  };
}
