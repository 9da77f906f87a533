// The current page of the console, as its URL names it: /console/SEGMENT or /console/SEGMENT/ID.

/** The pages and the URL segment of each. The segments are part of bookmarks and stay as they are. */
const SEGMENTS = {
  dashboard: "dashboard",
  messages: "messages",
  parked: "parked",
  deliveries: "deliveries",
  worklist: "worklist",
  tracking: "find",
  connections: "channels",
  mappings: "mappings",
  sites: "sites",
  access: "access",
  audit: "deeds",
} as const;
export type PageName = keyof typeof SEGMENTS;
export const PAGES = Object.keys(SEGMENTS) as PageName[];

export interface Route {
  page: PageName;
  id: number | null;
  /** What follows the page in the URL: an id, the name of a definition, or nothing. */
  name: string;
}

/** Parses the path of a URL; an unknown page is the dashboard. */
export function routeOf(path: string): Route {
  const [, , segment, id] = path.split("/");
  const page = PAGES.find((each) => SEGMENTS[each] === segment) ?? "dashboard";
  const name = decodeURIComponent(id ?? "");
  return { page, id: /^\d+$/.test(name) ? Number(name) : null, name };
}

/** Returns the URL of a page, or of one item of it. */
export function urlOf(page: PageName, id: number | string | null = null): string {
  const path = `/console/${SEGMENTS[page]}`;
  return id === null ? path : `${path}/${encodeURIComponent(id)}`;
}

let current = $state.raw<Route>(routeOf(location.pathname));

export const route = {
  get current(): Route {
    return current;
  },
  goTo(page: PageName, id: number | string | null = null): void {
    history.pushState({}, "", urlOf(page, id));
    current = routeOf(location.pathname);
  },
  /** Handles a click on a link of the console; the browser opens new tabs and windows. */
  follow(event: MouseEvent, page: PageName, id: number | string | null = null): void {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    route.goTo(page, id);
  },
};

window.addEventListener("popstate", () => (current = routeOf(location.pathname)));
