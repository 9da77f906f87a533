// The client of the console's HTTP interface. It reports when the session ends.
import { ApiProblem, createApi, type Api } from "../../shared/api/client";
import { withReauthentication } from "../../shared/session/reauthentication.svelte";
import { session } from "../session/session.svelte";
import { toast } from "../ui/toasts.svelte";
import { t } from "../texts";

export { session };

const watchingSession: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (response.status === 401) session.end();
  return response;
};

const plain = createApi({ token: null }, withReauthentication(watchingSession));

export const api: Api & { download(path: string, body?: unknown): Promise<Blob> } = {
  ...plain,
  /** Returns the bytes of a file; with a `body` the request is a POST. */
  async download(path: string, body?: unknown): Promise<Blob> {
    const headers = { "Content-Type": "application/json" };
    const response = await (body === undefined
      ? plain.raw(path)
      : plain.raw(path, { method: "POST", headers, body: JSON.stringify(body) }));
    if (!response.ok) throw new ApiProblem(response.status, "refused", t("not_downloaded"));
    return response.blob();
  },
};

/**
 * Requests data for an automatic refresh. The header keeps it from extending the session.
 *
 * With a `body` the request is a POST, as lists are read.
 */
export async function poll<T>(path: string, signal?: AbortSignal, body?: unknown): Promise<T> {
  const headers = { "X-Unattended": "1", "Content-Type": "application/json" };
  const response = await api.raw(path, {
    headers,
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  if (!response.ok) throw new ApiProblem(response.status, "", "");
  return (await response.json()) as T;
}

/** Why a part of a page has no data, for `Problem.svelte`. */
export interface Problem {
  kind: "unreachable" | "not_permitted" | "not_found" | "failed";
  text: string;
  /** The request id of an error of the service, for its log. */
  request: string;
}

export function problemOf(error: unknown): Problem {
  if (!(error instanceof ApiProblem) || error.status === 0)
    return { kind: "unreachable", text: t("unreachable"), request: "" };
  const request = error.body["request_id"];
  const kinds: Readonly<Record<number, Problem["kind"]>> = {
    403: "not_permitted",
    404: "not_found",
  };
  return {
    kind: kinds[error.status] ?? "failed",
    text: error.detail || error.code,
    request: typeof request === "string" ? request : "",
  };
}

/**
 * Runs an action; if it fails, reports the error to the user and returns undefined.
 *
 * Dialogs pass their own `report`: an answer that the person needs there belongs into the dialog.
 */
export async function attempt<T>(
  action: () => Promise<T>,
  report: (text: string) => void = (text) => toast({ text, tone: "red" }),
): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (!session.ended) report(problemOf(error).text);
    return undefined;
  }
}
