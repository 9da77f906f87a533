// Carry something out for a person, and tell them how it went.
import { ApiProblem } from "../api/client";
import { t } from "../i18n";
import { announcements } from "./announcements.svelte";

/** Runs a deed; says `done` (a key) when it went well, and why not otherwise. */
export async function attempt(deed: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await deed();
    if (done) announcements.say(t(done));
    return true;
  } catch (error) {
    announcements.say(reasonOf(error), "bad");
    return false;
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof ApiProblem) || error.status === 0) return t("shell.unreachable");
  const first = (error.body["errors"] as { message?: string }[] | undefined)?.[0]?.message;
  return error.detail || first || error.code;
}
