// Background jobs: started here, run on the server. The live stream tells how far they are; those that
// it does not tell of are asked for while they run.
import { href, route } from "../frame/route.svelte";
import { t } from "../texts";
import type { SelectionRequest } from "../ui/table/selection.svelte";
import { toast } from "../ui/toasts.svelte";
import { api, attempt, poll, session } from "./api";
import type { BackgroundJob } from "./api-types";
import { live } from "./live.svelte";

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

const PATH = "/console/api/background-jobs";
const EVERY_MS = 1000;
const OPEN = ["waiting", "running", "stopping"];
export const isOpen = ({ state }: Pick<BackgroundJob, "state">): boolean => OPEN.includes(state);

let known = $state.raw<readonly BackgroundJob[]>([]);
/** The newest jobs were read. */
let loaded = $state(false);
let watching = false;

const announced = (): readonly BackgroundJob[] => live.heads?.jobs ?? [];
function take(changed: readonly BackgroundJob[]): void {
  const before = new Map(known.map((job) => [job.id, job]));
  for (const job of changed) {
    const last = before.get(job.id);
    if (last && isOpen(last) && !isOpen(job)) announce(job);
    before.set(job.id, job);
  }
  known = [...before.values()].sort((one, other) => other.id - one.id);
}
function announce(job: BackgroundJob): void {
  toast({
    text: t("job.ended", { title: job.title }),
    tone: job.failed > 0 || job.state === "failed" ? "red" : "ok",
    action: { label: t("job.results"), run: () => showResults(job) },
  });
}
/** Opens the page with what a job has found: that of its definition, or its own. */
function showResults({ id, kind, result }: BackgroundJob): void {
  const name = result["definition"];
  if (kind === "shadow" && typeof name === "string") route.to("mapping", { name, tab: "shadow" });
  else route.to("job", { id });
}
/** Asks while a job runs that the stream does not tell of. */
async function watch(): Promise<void> {
  if (watching) return;
  watching = true;
  try {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
      take(announced());
      const silent = known.filter(
        (job) => isOpen(job) && !announced().some(({ id }) => id === job.id),
      );
      if (!known.some(isOpen) || session.ended) return;
      if (silent.length === 0 || document.hidden) continue;
      const answers = await Promise.allSettled(
        silent.map((job) => poll<BackgroundJob>(`${PATH}/${job.id}`)),
      );
      take(answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : [])));
    }
  } finally {
    watching = false;
  }
}

export const jobs = {
  /** The jobs that are known, newest first. */
  get list(): readonly BackgroundJob[] {
    const now = new Map(announced().map((job) => [job.id, job]));
    const others = known.filter((job) => !now.has(job.id));
    return [...now.values(), ...others].sort((one, other) => other.id - one.id);
  },
  /** False: the jobs of earlier days are not known yet. */
  get loaded(): boolean {
    return loaded;
  },
  path: (id: number): string => `${PATH}/${id}`,
  page: (id: number): string => href("job", { id }),
  /** Reads the newest jobs, once; the pages of lists call it. */
  async load(): Promise<void> {
    if (loaded) return;
    const found = await poll<{ rows: BackgroundJob[] }>(PATH).catch(() => undefined);
    if (!found) return; // the next page asks again
    loaded = true;
    take(found.rows);
    void watch();
  },
  /** Starts a job; undefined: it was refused, and the person is notified. */
  async start(request: JobRequest): Promise<BackgroundJob | undefined> {
    const job = await attempt(() => api.post<BackgroundJob>(PATH, { options: {}, ...request }));
    if (!job) return undefined;
    jobs.follow(job);
    toast({
      text: t("job.started", { title: job.title }),
      tone: "info",
      action: { label: t("job.show"), run: () => route.to("job", { id: job.id }) },
    });
    return job;
  },
  /** Follows a job that another route has created. */
  follow(job: BackgroundJob): void {
    take([job]);
    void watch();
  },
  async stop(id: number): Promise<void> {
    await attempt(() => api.post(`${PATH}/${id}/stop`));
    void watch();
  },
};
