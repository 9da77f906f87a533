// In which time zone a time is shown: that of the site of the item, else the one the person chose.
import { browserZone } from "../ui/time";
import { preferences } from "./preferences.svelte";

let sites = $state.raw<Readonly<Record<string, string>>>({});

export const zones = {
  /** Sets the zone of each visible site. */
  set(known: Readonly<Record<string, string>>): void {
    sites = known;
  },
  get known(): Readonly<Record<string, string>> {
    return sites;
  },
  knows: (site: string): boolean => site in sites,
  /** The zone of a site; without one the chosen zone, else that of the only or first site. */
  of(site?: string): string {
    const own = site === undefined ? undefined : sites[site];
    return own ?? (preferences.zone || Object.values(sites)[0] || browserZone());
  },
};
