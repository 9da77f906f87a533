// The current page, as the address names it; and links that change it without loading the document.
import { seed } from "../data/resource.svelte";
import {
  href,
  matchOf,
  renamed,
  ROUTES,
  type Area,
  type Match,
  type PageName,
  type Params,
} from "./routes";

export { href };
export type { PageName };

export interface Current extends Match {
  query: URLSearchParams;
  /** The key of the private filters of this history entry. */
  private: string | undefined;
}

interface HistoryState {
  private?: string;
}

function read(): Current {
  const old = renamed(location.pathname);
  if (old !== null) history.replaceState(history.state, "", old);
  return {
    ...matchOf(location.pathname),
    query: new URLSearchParams(location.search),
    private: (history.state as HistoryState | null)?.private,
  };
}

let current = $state.raw<Current>(read());
const loaders = new Map<Area, () => unknown>();

interface Target {
  query?: URLSearchParams | undefined;
  replace?: boolean;
  /** The key of private filters. */
  private?: string | undefined;
  /** What the list already knows of the item, for its page. */
  seed?: unknown;
}

export const route = {
  get current(): Current {
    return current;
  },
  to(page: PageName, params: Params = {}, target: Target = {}): void {
    const address = href(page, params, target.query);
    if (target.seed !== undefined) seed(address, target.seed);
    const state: HistoryState = target.private ? { private: target.private } : {};
    if (target.replace) history.replaceState(state, "", address);
    else history.pushState(state, "", address);
    current = read();
  },
  /** Says how the chunk of an area is loaded, so that a link can load it before it is followed. */
  setLoaders(known: Readonly<Record<Area, () => unknown>>): void {
    for (const [area, load] of Object.entries(known)) loaders.set(area as Area, load);
  },
};

window.addEventListener("popstate", () => (current = read()));

const INTENT_MS = 50;

/**
 * Makes a link follow without loading the document: `<a href={href(…)} {@attach link(…)}>`.
 *
 * The query is that of the address. The browser opens new tabs and windows. Hovering or focusing
 * loads the chunk of the page.
 */
export function link(page: PageName, params: Params = {}, seeded?: unknown) {
  return (node: HTMLElement): (() => void) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const intend = () => {
      timer = setTimeout(() => loaders.get(ROUTES[page].area)?.(), INTENT_MS);
    };
    const leave = () => clearTimeout(timer);
    const follow = (event: MouseEvent) => {
      if (event.defaultPrevented || event.button !== 0) return;
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      const address = (node as HTMLAnchorElement).href;
      const query = address ? new URL(address).searchParams : undefined;
      route.to(page, params, { seed: seeded, query });
    };
    node.addEventListener("pointerenter", intend);
    node.addEventListener("pointerleave", leave);
    node.addEventListener("focus", intend);
    node.addEventListener("blur", leave);
    node.addEventListener("click", follow);
    return () => {
      leave();
      node.removeEventListener("pointerenter", intend);
      node.removeEventListener("pointerleave", leave);
      node.removeEventListener("focus", intend);
      node.removeEventListener("blur", leave);
      node.removeEventListener("click", follow);
    };
  };
}
