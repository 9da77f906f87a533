// The names that the present pages use for addresses; they go with the pages.
import { href, route as frame, type PageName as FramePage } from "./frame/route.svelte";

const PAGES = {
  dashboard: ["overview", ""],
  messages: ["messages", "message"],
  parked: ["attention", ""],
  deliveries: ["deliveries", "delivery"],
  worklist: ["orders", ""],
  tracking: ["orders", ""],
  connections: ["connections", ""],
  mappings: ["mappings", "mapping"],
  sites: ["sites", "site"],
  access: ["access", ""],
  audit: ["audit", ""],
} as const satisfies Record<string, readonly [FramePage, FramePage | ""]>;
export type PageName = keyof typeof PAGES;

function targetOf(page: PageName, id: number | string | null): [FramePage, Record<string, string>] {
  const [list, item] = PAGES[page];
  if (id === null || !item) return [list, {}];
  return [item, { [item === "mapping" ? "name" : "id"]: String(id) }];
}

/** Returns the URL of a page, or of one item of it. */
export function urlOf(page: PageName, id: number | string | null = null): string {
  return href(...targetOf(page, id));
}

export const route = {
  goTo(page: PageName, id: number | string | null = null): void {
    frame.to(...targetOf(page, id));
  },
  /** Handles a click on a link of the console; the browser opens new tabs and windows. */
  follow(event: MouseEvent, page: PageName, id: number | string | null = null): void {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    route.goTo(page, id);
  },
};
