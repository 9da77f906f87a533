// Creates the draft of a new definition and opens it.
import { api, attempt } from "../data/api";
import { route } from "../route.svelte";
import type { SampleMessage, Saved } from "./types";
import { pendingSamples } from "./definition/draft.svelte";

export const NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}";

/** Saves the first draft and opens it with test messages; returns false if it was refused. */
export async function createDraft(
  name: string,
  text: string,
  messages: SampleMessage[],
): Promise<boolean> {
  const path = `/console/api/mappings/${encodeURIComponent(name)}/draft`;
  const body = { files: { [`${name}.yaml`]: text }, begun_on: "", revision: 0 };
  const saved = await attempt(() => api.put<Saved>(path, body));
  if (!saved) return false;
  pendingSamples.messages = messages;
  route.goTo("mappings", name);
  return true;
}
