// How the state of a background job is shown.
import type { BackgroundJob } from "../../data/api-types";
import { t } from "../../texts";
import type { Tone } from "../../ui/states";

const TONES: Readonly<Record<BackgroundJob["state"], Tone>> = {
  waiting: "info",
  running: "info",
  stopping: "info",
  done: "ok",
  stopped: "neutral",
  failed: "red",
};
export const toneOfJob = (job: BackgroundJob): Tone =>
  job.state === "done" && job.failed > 0 ? "amber" : TONES[job.state];
export const stateOf = (job: BackgroundJob): string => t(`jobs.state_${job.state}`);
