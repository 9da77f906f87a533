// Runs an action and shows its result to the user.
import { ApiProblem } from "../api/client";
import { t } from "../i18n";
import { announcements } from "./announcements.svelte";

/** Runs an action; shows the text of the key `done` if it succeeded, else the error. */
export async function attempt(action: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await action();
    if (done) announcements.add(t(done));
    return true;
  } catch (error) {
    announcements.add(reasonOf(error), "bad");
    return false;
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof ApiProblem) || error.status === 0) return t("shell.unreachable");
  const first = (error.body["errors"] as { message?: string }[] | undefined)?.[0]?.message;
  return error.detail || first || error.code;
}
