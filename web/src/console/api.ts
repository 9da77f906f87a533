// The door to the console's endpoints; whoever is signed out is asked to sign in again.
import { ApiProblem, createApi, type Api } from "../shared/api/client";
import { announcements } from "../shared/widgets/announcements.svelte";
import { confirming } from "./confirmation.svelte";
import { session } from "./session.svelte";
import { say } from "./words";

export { session };

const watched: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (response.status === 401) session.ended();
  return response;
};

const plain = createApi({ token: null }, confirming(watched));

export const api: Api & { download(path: string): Promise<Blob> } = {
  ...plain,
  /** Gives a file's bytes. */
  async download(path: string): Promise<Blob> {
    const response = await plain.raw(path);
    if (!response.ok) throw new ApiProblem(response.status, "refused", say("not_downloaded"));
    return response.blob();
  },
};

/** Reads what a page refreshes by itself: that keeps nobody signed in. */
export async function poll<T>(path: string): Promise<T> {
  const response = await api.raw(path, { headers: { "X-Unattended": "1" } });
  if (!response.ok) throw new ApiProblem(response.status, "refused", "");
  return (await response.json()) as T;
}

/**
 * Carries something out, and tells a person where it failed; undefined then.
 *
 * `tell` takes the words in a dialog: what is announced behind one is neither read nor heard.
 */
export async function attempt<T>(
  deed: () => Promise<T>,
  tell: (words: string) => void = (words) => announcements.say(words, "bad"),
): Promise<T | undefined> {
  try {
    return await deed();
  } catch (error) {
    const told = error instanceof ApiProblem && error.status !== 0;
    if (!session.over) tell(told ? error.detail || error.code : say("unreachable"));
    return undefined;
  }
}
