// The pages of the console: name, address, permission, area. The server's redirects follow `OLD`.
import type { IconName } from "../ui/icons";

export type Area =
  | "overview"
  | "operate"
  | "worklist"
  | "detail"
  | "configure"
  | "partners"
  | "mapping"
  | "administer"
  | "start";
export type GroupName = "operate" | "configure" | "administer";

interface PageRoute {
  /** Below /console/; `:name` is a part, `:name?` one that may be left out. */
  path: string;
  needs: string;
  area: Area;
}

export const ROUTES = {
  overview: { path: "overview", needs: "see", area: "overview" },
  messages: { path: "messages", needs: "see", area: "operate" },
  message: { path: "messages/:id", needs: "see", area: "detail" },
  deliveries: { path: "deliveries", needs: "see", area: "operate" },
  delivery: { path: "deliveries/:id", needs: "see", area: "detail" },
  orders: { path: "orders", needs: "find", area: "operate" },
  order: { path: "orders/:id", needs: "find", area: "operate" },
  steps: { path: "modality-worklist", needs: "find", area: "worklist" },
  merges: { path: "merges", needs: "bodies", area: "worklist" },
  attention: { path: "attention", needs: "see", area: "operate" },
  connections: { path: "connections", needs: "see", area: "configure" },
  new_connection: { path: "connections/new", needs: "connect", area: "configure" },
  connection: { path: "connections/:kind/:name/:tab?", needs: "see", area: "configure" },
  mappings: { path: "mappings", needs: "author", area: "mapping" },
  new_mapping: { path: "mappings/new/messages", needs: "author", area: "mapping" },
  mapping: { path: "mappings/:name/:tab?", needs: "author", area: "mapping" },
  examine: { path: "examine", needs: "connect", area: "partners" },
  import: { path: "import", needs: "author", area: "partners" },
  sites: { path: "sites", needs: "administer", area: "administer" },
  site: { path: "sites/:id/:part?", needs: "administer", area: "administer" },
  access: { path: "access", needs: "grant", area: "administer" },
  audit: { path: "audit", needs: "audit", area: "administer" },
  start: { path: "start", needs: "connect", area: "start" },
  jobs: { path: "jobs", needs: "see", area: "operate" },
  job: { path: "jobs/:id", needs: "see", area: "operate" },
} as const satisfies Record<string, PageRoute>;

export type PageName = keyof typeof ROUTES;
export type Params = Readonly<Record<string, string | number>>;
export const PAGE_NAMES = Object.keys(ROUTES) as PageName[];

/** The navigation: groups of pages, with the letter that follows `g`. */
export const NAVIGATION: readonly {
  name: GroupName;
  pages: readonly { page: PageName; icon: IconName; key: string }[];
}[] = [
  {
    name: "operate",
    pages: [
      { page: "overview", icon: "overview", key: "o" },
      { page: "messages", icon: "message", key: "m" },
      { page: "deliveries", icon: "delivery", key: "d" },
      { page: "orders", icon: "order", key: "r" },
      { page: "steps", icon: "worklist", key: "w" },
      { page: "merges", icon: "merge", key: "i" },
      { page: "attention", icon: "attention", key: "n" },
    ],
  },
  {
    name: "configure",
    pages: [
      { page: "connections", icon: "connection", key: "c" },
      { page: "mappings", icon: "mapping", key: "p" },
      { page: "examine", icon: "examine", key: "e" },
    ],
  },
  {
    name: "administer",
    pages: [
      { page: "sites", icon: "site", key: "s" },
      { page: "access", icon: "access", key: "a" },
      { page: "audit", icon: "audit", key: "u" },
    ],
  },
];

/** The page of the navigation that a page belongs to. */
const PARENTS: Partial<Record<PageName, PageName>> = {
  message: "messages",
  delivery: "deliveries",
  order: "orders",
  connection: "connections",
  new_connection: "connections",
  import: "connections",
  mapping: "mappings",
  new_mapping: "mappings",
  site: "sites",
};
export const parentOf = (page: PageName): PageName => PARENTS[page] ?? page;

/** The addresses of earlier versions, below /console. */
const OLD: Readonly<Record<string, string>> = {
  "": "/console/overview",
  dashboard: "/console/overview",
  parked: "/console/attention",
  find: "/console/orders",
  worklist: "/console/orders?list=unread",
  channels: "/console/connections",
  deeds: "/console/audit",
};

/** Returns the present address of an old one; null: it is not old. */
export function renamed(path: string): string | null {
  const rest = path.replace(/^\/console\/?/, "").replace(/\/$/, "");
  return OLD[rest] ?? null;
}

const COMPILED = PAGE_NAMES.map((page) => {
  const names: string[] = [];
  const pattern = ROUTES[page].path
    .split("/")
    .map((part) => {
      if (!part.startsWith(":")) return `/${part}`;
      names.push(part.replace(/[:?]/g, ""));
      return part.endsWith("?") ? "(?:/([^/]+))?" : "/([^/]+)";
    })
    .join("");
  return { page, names, pattern: new RegExp(`^/console${pattern}/?$`) };
}).sort((one, other) => one.names.length - other.names.length);

export interface Match {
  /** Null: there is no such page. */
  page: PageName | null;
  params: Readonly<Record<string, string>>;
}

export function matchOf(path: string): Match {
  for (const { page, names, pattern } of COMPILED) {
    const found = pattern.exec(path);
    if (!found) continue;
    const params: Record<string, string> = {};
    names.forEach((name, index) => {
      const text = found[index + 1];
      if (text !== undefined) params[name] = decoded(text);
    });
    return { page, params };
  }
  return { page: null, params: {} };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the address of a page. */
export function href(page: PageName, params: Params = {}, query?: URLSearchParams): string {
  const path = ROUTES[page].path
    .split("/")
    .map((part) => {
      if (!part.startsWith(":")) return part;
      const value = params[part.replace(/[:?]/g, "")];
      return value === undefined ? "" : encodeURIComponent(value);
    })
    .filter(Boolean)
    .join("/");
  const text = query?.toString();
  return `/console/${path}${text ? `?${text}` : ""}`;
}
