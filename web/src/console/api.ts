// The door to the console's endpoints; whoever is signed out is led to the login and back.
import { ApiProblem, createApi, type Api } from "../shared/api/client";
import { announcements } from "../shared/widgets/announcements.svelte";
import { say } from "./words";

const watched: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (response.status === 401) location.assign("/reporting/login?next=/console");
  return response;
};

export const api: Api = createApi({ token: null }, watched);

/** Reads what a page refreshes by itself: that keeps nobody signed in. */
export async function poll<T>(path: string): Promise<T> {
  const response = await api.raw(path, { headers: { "X-Unattended": "1" } });
  if (!response.ok) throw new ApiProblem(response.status, "refused", "");
  return (await response.json()) as T;
}

/** Carries something out, and tells a person where it failed; undefined then. */
export async function attempt<T>(deed: () => Promise<T>): Promise<T | undefined> {
  try {
    return await deed();
  } catch (error) {
    const told = error instanceof ApiProblem && error.status !== 0;
    announcements.say(told ? error.detail || error.code : say("unreachable"), "bad");
    return undefined;
  }
}
