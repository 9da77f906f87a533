// The recorder: off, starting, on. It selects the recognizer; the caller inserts the text.
import type { Api } from "../../shared/api/client";
import type { Microphones } from "../embedding/microphones";
import { browserRecognizer, recognitionOf } from "./browserRecognizer";
import { meterOf, type Meter } from "./audioLevel";
import type { Failure, Recognizer } from "./recognizer";
import { serverRecognizer } from "./serverRecognizer";

export type Problem = Failure | "no_microphone" | "not_here";

interface Offer {
  language: string;
  browser: boolean;
  server: boolean;
}

export interface RecorderOptions {
  api: Api;
  microphones: Microphones;
  media: MediaDevices | undefined;
  window: object;
  /** Inserts recognized text; returns false if there is no text field. */
  heard(words: string, language: string): boolean;
  /** Called when the recorder is switched on or off. */
  turned(on: boolean): void;
}

const METER_MS = 80;

export class Recorder {
  state = $state<"off" | "starting" | "on">("off");
  level = $state(0);
  guess = $state("");
  problem = $state<Problem | "">("");
  readonly #options: RecorderOptions;
  #recognizer: Recognizer | null = null;
  #stream: MediaStream | null = null;
  #meter: Meter | null = null;
  #meterTimer: ReturnType<typeof setInterval> | undefined;
  /** One queue for all recordings keeps their text in spoken order. */
  #serverRecognizer: Recognizer | null = null;
  /** Pending until the text of all recordings is inserted. */
  #settled: Promise<void> = Promise.resolve();
  /** The browser's recognizer has failed once and is not used again. */
  #browserFailed = false;
  /** What `turned` was called with last. */
  #announced = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  toggle(): Promise<void> {
    return this.state === "off" ? this.start() : this.stop();
  }

  async start(): Promise<void> {
    if (this.state !== "off") return;
    this.state = "starting";
    this.problem = "";
    try {
      const offer = await this.#options.api.get<Offer>("/reporting/api/session/dictation");
      const stream = await this.#open();
      if (this.#aborted()) return stream.getTracks().forEach((track) => track.stop());
      this.#stream = stream;
      this.#begin(offer, stream);
    } catch (error) {
      this.#fail(error instanceof Refusal ? error.problem : "failed");
    }
  }

  /** Stopped again before the microphone was open. */
  #aborted(): boolean {
    return this.state !== "starting";
  }

  async #open(): Promise<MediaStream> {
    const { media, microphones } = this.#options;
    if (!media) throw new Refusal("no_microphone");
    const found = await microphones.list().catch(() => []);
    const active = found.find((device) => device.isActive);
    const audio = { ...(active ? { deviceId: { ideal: active.deviceId } } : {}), channelCount: 1 };
    try {
      return await media.getUserMedia({ audio });
    } catch (error) {
      const denied = error instanceof DOMException && error.name === "NotAllowedError";
      throw new Refusal(denied ? "denied" : "no_microphone");
    }
  }

  #begin(offer: Offer, stream: MediaStream): void {
    const meter = (this.#meter = meterOf(stream));
    const recognizer = (this.#recognizer = this.#choose(offer));
    this.#meterTimer = setInterval(() => (this.level = meter.level()), METER_MS);
    recognizer.start({
      language: offer.language,
      stream,
      heard: (words) => {
        if (!this.#options.heard(words, offer.language)) this.problem = "not_here";
      },
      guessed: (words) => (this.guess = words),
      failed: (failure) => this.#failed(failure, offer),
    });
    if (this.#recognizer !== recognizer) return; // it failed at once
    this.state = "on";
    this.#announce(true);
  }

  /** A change of the recognizer while the recorder is on is no change for the user. */
  #announce(on: boolean): void {
    if (on === this.#announced) return;
    this.#announced = on;
    this.#options.turned(on);
  }

  #choose(offer: Offer): Recognizer {
    const maker = recognitionOf(this.#options.window);
    if (maker && offer.browser && !this.#browserFailed) return browserRecognizer(maker);
    if (offer.server) {
      const level = () => this.#meter?.level() ?? 0;
      return (this.#serverRecognizer ??= serverRecognizer(this.#options.api, level));
    }
    throw new Refusal("no_recognizer");
  }

  /** Falls back to the recognizer of the service if the browser's one does not work. */
  #failed(failure: Failure, offer: Offer): void {
    if (failure === "no_recognizer" && offer.server && !this.#browserFailed && this.#stream) {
      this.#browserFailed = true;
      const on = this.state === "on";
      this.#meter?.close();
      clearInterval(this.#meterTimer);
      if (on) this.state = "starting";
      this.#begin(offer, this.#stream);
      return;
    }
    if (failure === "no_recognizer") this.#browserFailed = true;
    this.#fail(failure);
  }

  #fail(problem: Problem): void {
    this.problem = problem;
    this.state = "off";
    // The recording is still sent, and its text is inserted when it arrives.
    this.#settled = this.#recognizer?.stop() ?? this.#settled;
    this.#release();
    this.#announce(false);
  }

  /** Switches it off; resolves when the last text is inserted. */
  stop(): Promise<void> {
    if (this.state !== "off") this.#settled = this.#stop();
    return this.#settled;
  }

  /** Stops waiting for text that does not arrive. */
  giveUp(): void {
    this.#settled = Promise.resolve();
  }

  async #stop(): Promise<void> {
    const held = { recognizer: this.#recognizer, stream: this.#stream, meter: this.#meter };
    this.state = "off";
    this.#announce(false);
    clearInterval(this.#meterTimer);
    this.level = 0;
    const words = held.recognizer?.stop();
    close(held); // recording stops at once, even if text is still pending
    await words;
    if (this.state === "off") this.#release();
  }

  #release(): void {
    clearInterval(this.#meterTimer);
    close({ stream: this.#stream, meter: this.#meter });
    [this.#meter, this.#stream, this.#recognizer] = [null, null, null];
    [this.level, this.guess] = [0, ""];
  }
}

function close({ stream, meter }: { stream: MediaStream | null; meter: Meter | null }): void {
  meter?.close();
  stream?.getTracks().forEach((track) => track.stop());
}

class Refusal extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem);
    this.problem = problem;
  }
}
