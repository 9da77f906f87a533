// Reports changes of a site's reports by long polling.
import type { Api } from "../../shared/api/client";

interface Changes {
  reportIds: string[];
  cursor: number;
}

const WAIT_SECONDS = 20;
const AGAIN_MS = 3000;

/** Calls `changed` with the ids of changed reports, from `cursor` on; returns how to stop it. */
export function followSite(
  api: Api,
  base: string,
  site: string,
  cursor: number,
  changed: (reportIds: string[]) => void,
): () => void {
  const control = new AbortController();
  let after = cursor;

  async function ask(): Promise<void> {
    const query = new URLSearchParams({
      SiteID: site,
      after: String(after),
      wait: String(WAIT_SECONDS),
    });
    const headers = { "X-Unattended": "1" };
    const init = { signal: control.signal, headers };
    const response = await api.raw(`${base}/changes?${query.toString()}`, init);
    if (!response.ok) throw new Error(String(response.status));
    const found = (await response.json()) as Changes;
    after = found.cursor;
    if (found.reportIds.length && !control.signal.aborted) changed(found.reportIds);
  }

  async function follow(): Promise<void> {
    while (!control.signal.aborted) {
      try {
        await ask();
      } catch {
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  }

  void follow();
  return () => control.abort();
}
