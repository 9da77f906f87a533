// A persistent window follows a launch: it saves first, and does not follow if saving fails.
import { ApiProblem, type Api } from "../../shared/api/client";
import type { Boot } from "../boot";
import type { FollowRequest } from "../live/liveStream";

export type Refusal = "unsaved" | "dialog" | "not_opened";

export interface Follower {
  api: Api;
  /** Saves everything; rejects when something cannot be saved. */
  ready: () => Promise<void>;
  /** Whether a dialog waits for the user. */
  busy: () => boolean;
  /** How long saving may take. */
  saveMs?: number;
}

/** `unreachable`: the service cannot be reached, and the launch is still pending. */
export type Followed =
  | { kind: "switched"; boot: Boot }
  | { kind: "stayed"; reason: Refusal }
  | { kind: "superseded" | "unreachable" };

const HOME = "/reporting/api/session/";

/** Follows a launch, or reports to the service why not. */
export async function follow(follower: Follower, request: FollowRequest): Promise<Followed> {
  if (follower.busy()) return stay(follower.api, request, "dialog");
  if (!(await saved(follower))) return stay(follower.api, request, "unsaved");
  try {
    const { sequence } = request;
    const boot = await follower.api.post<Boot>(`${HOME}follow`, { sequence });
    return { kind: "switched", boot };
  } catch (error) {
    const { status = 0, code = "" } = error instanceof ApiProblem ? error : {};
    if (code === "superseded") return { kind: "superseded" };
    if (status === 0 || status === 503) return { kind: "unreachable" };
    return stay(follower.api, request, "not_opened");
  }
}

async function saved({ ready, saveMs = 4000 }: Follower): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>(
    (resolve) => (timer = setTimeout(() => resolve(false), saveMs)),
  );
  const done = ready().then(
    () => true,
    () => false,
  );
  const result = await Promise.race([done, late]);
  clearTimeout(timer);
  return result;
}

async function stay(api: Api, request: FollowRequest, reason: Refusal): Promise<Followed> {
  const body = { sequence: request.sequence, reason };
  await api.post(`${HOME}stay`, body).catch(() => undefined); // the launch then ends by its time limit
  return { kind: "stayed", reason };
}
