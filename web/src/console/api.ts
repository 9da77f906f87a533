// The client of the console's HTTP interface. It reports when the session ends.
import { ApiProblem, createApi, type Api } from "../shared/api/client";
import { announcements } from "../shared/widgets/announcements.svelte";
import { withReauthentication } from "../shared/session/reauthentication.svelte";
import { session } from "./session/session.svelte";
import { t } from "./texts";

export { session };

const watchingSession: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (response.status === 401) session.end();
  return response;
};

const plain = createApi({ token: null }, withReauthentication(watchingSession));

export const api: Api & { download(path: string): Promise<Blob> } = {
  ...plain,
  /** Returns the bytes of a file. */
  async download(path: string): Promise<Blob> {
    const response = await plain.raw(path);
    if (!response.ok) throw new ApiProblem(response.status, "refused", t("not_downloaded"));
    return response.blob();
  },
};

/** Requests data for an automatic refresh. The header keeps it from extending the session. */
export async function poll<T>(path: string): Promise<T> {
  const response = await api.raw(path, { headers: { "X-Unattended": "1" } });
  if (!response.ok) throw new ApiProblem(response.status, "refused", "");
  return (await response.json()) as T;
}

/**
 * Runs an action; if it fails, reports the error to the user and returns undefined.
 *
 * Dialogs pass their own `report`: an announcement behind an open dialog is not visible.
 */
export async function attempt<T>(
  action: () => Promise<T>,
  report: (text: string) => void = (text) => announcements.add(text, "bad"),
): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    const answered = error instanceof ApiProblem && error.status !== 0;
    if (!session.ended) report(answered ? error.detail || error.code : t("unreachable"));
    return undefined;
  }
}
