// The interface between the recorder and a speech recognizer.

export type Failure = "denied" | "failed" | "no_recognizer";

export interface Hearing {
  /** One of the 17 codes. */
  language: string;
  stream: MediaStream;
  /** Final text, in spoken order. */
  heard(text: string): void;
  /** Interim text; "" if there is none. */
  guessed(text: string): void;
  failed(failure: Failure): void;
}

export interface Recognizer {
  start(hearing: Hearing): void;
  /** Resolves when the last text has arrived. */
  stop(): Promise<void>;
}
