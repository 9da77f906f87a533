// Background jobs: started here, run on the server, told by the live stream.
import { api, attempt } from "./api";
import type { BackgroundJob } from "./api-types";
import { live } from "./live.svelte";
import { toast } from "../ui/toasts.svelte";
import type { SelectionRequest } from "../ui/table/selection.svelte";
import { t } from "../texts";

export interface JobRequest {
  kind:
    | "replay"
    | "retry"
    | "skip"
    | "cancel"
    | "acknowledge"
    | "export"
    | "search"
    | "shadow"
    | "examine";
  selection: SelectionRequest;
  options?: Readonly<Record<string, unknown>>;
  reason?: string;
}

let started = $state.raw<readonly BackgroundJob[]>([]);

export const jobs = {
  /** The jobs of the last hours, newest first; those of the stream replace those started here. */
  get list(): readonly BackgroundJob[] {
    const told = live.heads?.jobs ?? [];
    const known = new Set(told.map((job) => job.id));
    return [...started.filter((job) => !known.has(job.id)), ...told];
  },
  /** Starts a job; undefined: it was refused, and the person was told. */
  async start(request: JobRequest): Promise<BackgroundJob | undefined> {
    const job = await attempt(() =>
      api.post<BackgroundJob>("/console/api/background-jobs", { options: {}, ...request }),
    );
    if (!job) return undefined;
    started = [job, ...started];
    toast({ text: t("job.started", { title: job.title }), tone: "info" });
    return job;
  },
  async stop(id: number): Promise<void> {
    await attempt(() => api.post(`/console/api/background-jobs/${id}/stop`));
  },
};
