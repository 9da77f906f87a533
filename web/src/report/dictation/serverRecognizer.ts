// Speech recognition by the service: recorded here, cut at pauses, sent in order.
import { ANSWER_WITHIN, ApiProblem, type Api } from "../../shared/api/client";
import type { Hearing, Recognizer } from "./recognizer";

const KINDS = ["audio/webm;codecs=opus", "audio/ogg;codecs=opus", "audio/mp4"];
const LEVEL_EVERY_MS = 100;
const QUIET_LEVEL = 0.03;
const PAUSE_MS = 700;
const MIN_RECORDING_MS = 1500;
const MAX_RECORDING_MS = 25_000;
const RETRY_AFTER_MS = [500, 2000, 5000];

/** Sends a recording; retries if the service is unreachable, to keep the order. */
export async function transcribe(
  api: Api,
  recording: Blob,
  language: string,
  waits: readonly number[] = RETRY_AFTER_MS,
): Promise<string> {
  const init = { method: "POST", body: recording, headers: { "Content-Type": recording.type } };
  for (let attempt = 0; ; attempt += 1) {
    try {
      const path = `/reporting/api/session/dictation?language=${encodeURIComponent(language)}`;
      const answer = await api.raw(path, { ...init, signal: AbortSignal.timeout(ANSWER_WITHIN) });
      if (answer.ok) return ((await answer.json()) as { text: string }).text;
      if (answer.status < 500) throw new ApiProblem(answer.status, "refused", "");
    } catch (error) {
      if (error instanceof ApiProblem && error.status !== 0) throw error;
    }
    const wait = waits[attempt];
    if (wait === undefined) throw new ApiProblem(502, "model_failed", "");
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** `level` returns the input level (0 to 1), to cut at pauses. */
export function serverRecognizer(api: Api, level: () => number): Recognizer {
  let recorder: MediaRecorder | null = null;
  let cutTimer: ReturnType<typeof setInterval> | undefined;
  let sending: Promise<void> = Promise.resolve();
  let stopped: Promise<void> = Promise.resolve();
  let waiting = 0;

  function send(hearing: Hearing, recording: Blob): void {
    waiting += 1;
    hearing.guessed("…");
    const answer = transcribe(api, recording, hearing.language);
    answer.catch(() => undefined); // handled below, in order
    sending = sending
      .then(async () => hearing.heard(await answer))
      .catch(() => hearing.failed("failed"))
      .finally(() => {
        waiting -= 1;
        if (waiting === 0) hearing.guessed("");
      });
  }

  function record(hearing: Hearing): MediaRecorder {
    const mimeType = KINDS.find((kind) => MediaRecorder.isTypeSupported(kind));
    const made = new MediaRecorder(hearing.stream, mimeType ? { mimeType } : {});
    const parts: Blob[] = [];
    let spoke = false;
    const levelTimer = setInterval(() => (spoke ||= level() > QUIET_LEVEL), LEVEL_EVERY_MS);
    made.ondataavailable = (event) => void parts.push(event.data);
    stopped = new Promise((resolve) => {
      made.onstop = () => {
        clearInterval(levelTimer);
        if (spoke) send(hearing, new Blob(parts, { type: made.mimeType }));
        resolve();
      };
    });
    made.start();
    return made;
  }

  function cutAtPauses(hearing: Hearing): void {
    let since = 0;
    let quiet = 0;
    cutTimer = setInterval(() => {
      since += LEVEL_EVERY_MS;
      quiet = level() > QUIET_LEVEL ? 0 : quiet + LEVEL_EVERY_MS;
      if (since < MAX_RECORDING_MS && (since < MIN_RECORDING_MS || quiet < PAUSE_MS)) return;
      [since, quiet] = [0, 0];
      recorder?.stop();
      recorder = record(hearing);
    }, LEVEL_EVERY_MS);
  }

  return {
    start(hearing) {
      recorder = record(hearing);
      cutAtPauses(hearing);
    },
    async stop() {
      clearInterval(cutTimer);
      recorder?.stop();
      recorder = null;
      await stopped;
      await sending;
    },
  };
}
