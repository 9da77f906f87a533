// @vitest-environment node
import { afterEach, expect, it, vi } from "vitest";
import { createApi } from "../../shared/api/client";
import { browserRecognizer, recognitionOf, type RecognitionMaker } from "./browserRecognizer";
import { loudness } from "./audioLevel";
import type { Hearing } from "./recognizer";
import { transcribe } from "./serverRecognizer";

afterEach(() => vi.useRealTimers());

/** The part of the Web Speech API that is used, played by hand. */
class Recognition {
  static made: Recognition[] = [];
  lang = "";
  continuous = false;
  interimResults = false;
  starts = 0;
  onresult: ((event: never) => void) | null = null;
  onerror: ((event: { error: string }) => void) | null = null;
  onend: (() => void) | null = null;
  constructor() {
    Recognition.made.push(this);
  }
  start() {
    this.starts += 1;
  }
  stop() {
    this.onend?.();
  }
  say(...results: [string, boolean][]) {
    const all = results.map(([transcript, isFinal]) => ({ isFinal, 0: { transcript } }));
    this.onresult?.({ resultIndex: 0, results: all } as never);
  }
}

function listening(language = "en-US") {
  const told: string[] = [];
  const hearing: Hearing = {
    language,
    stream: { getAudioTracks: () => [] } as unknown as MediaStream,
    heard: (words) => told.push(`heard ${words}`),
    guessed: (words) => told.push(`guessed ${words}`),
    failed: (failure) => told.push(`failed ${failure}`),
  };
  const recognizer = browserRecognizer(Recognition as unknown as RecognitionMaker);
  recognizer.start(hearing);
  return { recognizer, told, recognition: Recognition.made.at(-1) as Recognition };
}

it("gives final words once, and guesses beside them", () => {
  const { told, recognition } = listening("zh-Hant");
  expect([recognition.lang, recognition.continuous]).toEqual(["zh-TW", true]);
  recognition.say(["no nodule", true], ["no eff", false]);
  expect(told).toEqual(["heard no nodule", "guessed no eff"]);
});

it("goes on after a silence until it is stopped", async () => {
  const { recognizer, told, recognition } = listening();
  recognition.onerror?.({ error: "no-speech" });
  recognition.onend?.();
  expect(recognition.starts).toBe(2);
  await recognizer.stop();
  recognition.onend?.();
  expect(recognition.starts).toBe(2);
  expect(told).toEqual([]);
});

it("tells a forbidden microphone from a recognizer that is none", () => {
  const denied = listening();
  denied.recognition.onerror?.({ error: "not-allowed" });
  expect(denied.told).toEqual(["failed denied"]);
  const none = listening();
  none.recognition.onerror?.({ error: "network" });
  none.recognition.onend?.();
  expect([none.told, none.recognition.starts]).toEqual([["failed no_recognizer"], 1]);
});

it("finds the browser's recognizer by either name", () => {
  expect(recognitionOf({ webkitSpeechRecognition: Recognition })).toBe(Recognition);
  expect(recognitionOf({})).toBeNull();
});

it("sends a recording again while the service cannot be reached, and no refusal twice", async () => {
  const answers = [
    () => Promise.reject(new TypeError("offline")),
    () => Promise.resolve(new Response("{}", { status: 502 })),
    () => Promise.resolve(new Response('{"text":"No nodule."}')),
  ];
  const asked: string[] = [];
  const api = createApi({ token: "s" }, ((path: string) => {
    asked.push(path);
    return (answers.shift() ?? (() => Promise.resolve(new Response("{}", { status: 415 }))))();
  }) as typeof fetch);
  const recording = new Blob(["x"], { type: "audio/webm" });
  expect(await transcribe(api, recording, "de-DE", [0, 0, 0])).toBe("No nodule.");
  expect(asked).toHaveLength(3);
  expect(asked[0]).toBe("/reporting/api/session/dictation?language=de-DE");
  await expect(transcribe(api, recording, "de-DE", [0, 0])).rejects.toMatchObject({ status: 415 });
  expect(asked).toHaveLength(4);
});

it("measures how loud it is", () => {
  expect(loudness(new Uint8Array(8).fill(128))).toBe(0);
  expect(loudness(new Uint8Array([0, 255, 0, 255]))).toBe(1);
});
