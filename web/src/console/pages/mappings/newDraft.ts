// Creates the draft of a new definition and opens it.
import { api, attempt } from "../../data/api";
import { route } from "../../frame/route.svelte";
import { pendingSamples } from "../../mappings/definition/draft.svelte";
import type { SampleMessage, Saved } from "../../mappings/types";
import { t } from "../../texts";

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

/** Why a definition cannot have this name; "": it can. */
export function nameProblem(name: string, taken: readonly string[]): string {
  if (taken.includes(name.trim())) return t("mappings.name_exists");
  return NAME.test(name.trim()) ? "" : t("mappings.name_hint");
}

/** Saves the first draft and opens it with test messages; a refusal is reported. */
export async function createDraft(
  name: string,
  text: string,
  messages: SampleMessage[],
  report: (text: string) => void,
): Promise<void> {
  const path = `/console/api/mappings/${encodeURIComponent(name)}/draft`;
  const body = { files: { [`${name}.yaml`]: text }, begun_on: "", revision: 0 };
  if (!(await attempt(() => api.put<Saved>(path, body), report))) return;
  pendingSamples.messages = messages;
  route.to("mapping", { name });
}
