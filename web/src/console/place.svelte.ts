// Which page of the console the address bar names: /console/PAGE or /console/PAGE/ID.

export const PAGES = [
  "dashboard",
  "messages",
  "parked",
  "deliveries",
  "find",
  "channels",
  "deeds",
] as const;
export type PageName = (typeof PAGES)[number];

export interface Place {
  page: PageName;
  id: number | null;
}

/** Reads an address; what it does not know is the dashboard. */
export function placeOf(path: string): Place {
  const [, , page, id] = path.split("/");
  const known = PAGES.find((each) => each === page) ?? "dashboard";
  return { page: known, id: id && /^\d+$/.test(id) ? Number(id) : null };
}

/** Writes the address of a page, or of one row of it. */
export function addressOf(page: PageName, id: number | null = null): string {
  return id === null ? `/console/${page}` : `/console/${page}/${id}`;
}

let current = $state.raw<Place>(placeOf(location.pathname));

export const place = {
  get current(): Place {
    return current;
  },
  go(page: PageName, id: number | null = null): void {
    history.pushState({}, "", addressOf(page, id));
    current = { page, id };
  },
};

window.addEventListener("popstate", () => (current = placeOf(location.pathname)));
