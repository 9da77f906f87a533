// The SiteIDs that a connection can name.
import { api } from "../../data/api";

/** Returns none if they cannot be listed: then they are typed. */
export async function loadSites(signal: AbortSignal): Promise<string[]> {
  try {
    const sites = await api.get<{ SiteID: string }[]>("/console/api/sites", { signal });
    return sites.map((site) => site.SiteID);
  } catch {
    return [];
  }
}
