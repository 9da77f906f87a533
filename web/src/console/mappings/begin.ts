// Begins a definition: its draft, and the way to it.
import { api, attempt } from "../api";
import { place } from "../place.svelte";
import type { Message, Saved } from "./types";
import { carried } from "./workbench.svelte";

export const NAME = "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}";

/** Saves a first draft, and opens it with messages to try it on; false where it was refused. */
export async function begin(name: string, text: string, messages: Message[]): Promise<boolean> {
  const path = `/console/api/mappings/${encodeURIComponent(name)}/draft`;
  const body = { files: { [`${name}.yaml`]: text }, begun_on: "", revision: 0 };
  const saved = await attempt(() => api.put<Saved>(path, body));
  if (!saved) return false;
  carried.messages = messages;
  place.go("mappings", name);
  return true;
}
