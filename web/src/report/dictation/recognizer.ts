// What a recognizer is to the recorder, whoever recognizes.

export type Failure = "denied" | "failed" | "no_recognizer";

export interface Hearing {
  /** One of the 17 codes. */
  language: string;
  stream: MediaStream;
  /** Words that will not change any more, in the order of their speech. */
  heard(text: string): void;
  /** Words that may change still; "" when there are none. */
  guessed(text: string): void;
  failed(failure: Failure): void;
}

export interface Recognizer {
  start(hearing: Hearing): void;
  /** Resolves when the last words have come. */
  stop(): Promise<void>;
}
