// @vitest-environment node
import { expect, it } from "vitest";
import { createApi } from "../../shared/api/client";
import { browserRecognizer, recognitionOf, type RecognitionMaker } from "./browserRecognizer";
import { loudness } from "./audioLevel";
import type { Hearing } from "./recognizer";
import { transcribe } from "./serverRecognizer";

/** A fake of the used part of the Web Speech API. */
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
  const events: string[] = [];
  const hearing: Hearing = {
    language,
    stream: { getAudioTracks: () => [] } as unknown as MediaStream,
    heard: (words) => events.push(`heard ${words}`),
    guessed: (words) => events.push(`guessed ${words}`),
    failed: (failure) => events.push(`failed ${failure}`),
  };
  const recognizer = browserRecognizer(Recognition as unknown as RecognitionMaker);
  recognizer.start(hearing);
  return { recognizer, events, recognition: Recognition.made.at(-1) as Recognition };
}

it("returns final words once, and interim words separately", () => {
  const { events, recognition } = listening("zh-Hant");
  expect([recognition.lang, recognition.continuous]).toEqual(["zh-TW", true]);
  recognition.say(["no nodule", true], ["no eff", false]);
  expect(events).toEqual(["heard no nodule", "guessed no eff"]);
});

it("continues after a silence until it is stopped", async () => {
  const { recognizer, events, recognition } = listening();
  recognition.onerror?.({ error: "no-speech" });
  recognition.onend?.();
  expect(recognition.starts).toBe(2);
  await recognizer.stop();
  recognition.onend?.();
  expect(recognition.starts).toBe(2);
  expect(events).toEqual([]);
});

it("distinguishes a forbidden microphone from an unusable recognizer", () => {
  const denied = listening();
  denied.recognition.onerror?.({ error: "not-allowed" });
  expect(denied.events).toEqual(["failed denied"]);
  const unusable = listening();
  unusable.recognition.onerror?.({ error: "network" });
  unusable.recognition.onend?.();
  expect([unusable.events, unusable.recognition.starts]).toEqual([["failed no_recognizer"], 1]);
});

it("finds the browser's recognizer by either name", () => {
  expect(recognitionOf({ webkitSpeechRecognition: Recognition })).toBe(Recognition);
  expect(recognitionOf({})).toBeNull();
});

it("sends a recording again while the service is unreachable, and not after a refusal", async () => {
  const answers = [
    () => Promise.reject(new TypeError("offline")),
    () => Promise.resolve(new Response("{}", { status: 502 })),
    () => Promise.resolve(new Response('{"text":"No nodule."}')),
  ];
  const requests: string[] = [];
  const api = createApi({ token: "s" }, ((path: string) => {
    requests.push(path);
    return (answers.shift() ?? (() => Promise.resolve(new Response("{}", { status: 415 }))))();
  }) as typeof fetch);
  const recording = new Blob(["x"], { type: "audio/webm" });
  expect(await transcribe(api, recording, "de-DE", [0, 0, 0])).toBe("No nodule.");
  expect(requests).toHaveLength(3);
  expect(requests[0]).toBe("/reporting/api/session/dictation?language=de-DE");
  await expect(transcribe(api, recording, "de-DE", [0, 0])).rejects.toMatchObject({ status: 415 });
  expect(requests).toHaveLength(4);
});

it("measures the loudness", () => {
  expect(loudness(new Uint8Array(8).fill(128))).toBe(0);
  expect(loudness(new Uint8Array([0, 255, 0, 255]))).toBe(1);
});
