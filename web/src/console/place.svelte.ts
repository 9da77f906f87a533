// Which page of the console the address bar names: /console/PAGE, /console/PAGE/ID or
// /console/PAGE/NAME.

export const PAGES = [
  "dashboard",
  "messages",
  "parked",
  "deliveries",
  "worklist",
  "find",
  "channels",
  "mappings",
  "sites",
  "access",
  "deeds",
] as const;
export type PageName = (typeof PAGES)[number];

export interface Place {
  page: PageName;
  id: number | null;
  /** What stands behind the page, if anything: an id, or the name of a definition. */
  name: string;
}

/** Reads an address; what it does not know is the dashboard. */
export function placeOf(path: string): Place {
  const [, , page, id] = path.split("/");
  const known = PAGES.find((each) => each === page) ?? "dashboard";
  const name = decodeURIComponent(id ?? "");
  return { page: known, id: /^\d+$/.test(name) ? Number(name) : null, name };
}

/** Writes the address of a page, or of one row of it. */
export function addressOf(page: PageName, id: number | string | null = null): string {
  return id === null ? `/console/${page}` : `/console/${page}/${encodeURIComponent(id)}`;
}

let current = $state.raw<Place>(placeOf(location.pathname));

export const place = {
  get current(): Place {
    return current;
  },
  go(page: PageName, id: number | string | null = null): void {
    history.pushState({}, "", addressOf(page, id));
    current = placeOf(location.pathname);
  },
};

window.addEventListener("popstate", () => (current = placeOf(location.pathname)));
