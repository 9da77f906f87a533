// The places that search and palette offer without asking the server: pages, connections, definitions,
// specifications.
import { downloadSpecification } from "../data/specifications";
import { may } from "../data/me.svelte";
import { names } from "../data/names.svelte";
import { hasText, t } from "../texts";
import type { ListGroup, ListItem } from "../ui/listbox";
import { href } from "./route.svelte";
import { NAVIGATION, ROUTES, type PageName } from "./routes";

export interface PlaceItem extends ListItem {
  href?: string;
  run?: () => unknown;
}

export const permitted = (page: PageName): boolean => may(ROUTES[page].needs);
const aliasesOf = (name: string): string[] =>
  hasText(`alias.${name}`) ? t(`alias.${name}`).split(", ") : [];

export function pageItems(): PlaceItem[] {
  return NAVIGATION.flatMap((group) => group.pages)
    .filter(({ page }) => permitted(page))
    .map(({ page, key }) => ({
      id: `page ${page}`,
      title: t(`page.${page}`),
      keys: `g ${key}`,
      aliases: aliasesOf(page),
      href: href(page),
    }));
}
/** Pages that are not in the navigation. */
const OTHER_PAGES = ["import", "jobs", "start"] as const;
export const otherPageItems = (): PlaceItem[] =>
  OTHER_PAGES.filter(permitted).map((page) => ({
    id: `page ${page}`,
    title: t(`page.${page}`),
    aliases: aliasesOf(page),
    href: href(page),
  }));
export function connectionItems(): PlaceItem[] {
  return names.connections.map(({ kind, name, address }) => ({
    id: `connection ${kind} ${name}`,
    title: name,
    detail: [t(`kind.${kind}`), address].filter(Boolean).join(" · "),
    aliases: aliasesOf("connections"),
    href: href("connection", { kind, name }),
  }));
}
export function definitionItems(): PlaceItem[] {
  return names.definitions.map((name) => ({
    id: `definition ${name}`,
    title: name,
    detail: t("kind.definition"),
    aliases: aliasesOf("mappings"),
    href: href("mapping", { name }),
  }));
}
/** The specification of each connection as a page, then as a file. */
export function specificationItems(): PlaceItem[] {
  const of = names.connections;
  const titled = of.map((one) => ({
    ...one,
    title: t("palette.specification", { name: one.name }),
    detail: t(`kind.${one.kind}`),
    aliases: aliasesOf("specification"),
  }));
  return [
    ...titled.map(({ kind, name, title, detail, aliases }) => ({
      id: `specification ${kind} ${name}`,
      href: href("connection", { kind, name, tab: "specification" }),
      ...{ title, detail, aliases },
    })),
    ...titled.map(({ kind, name, title, detail, aliases }) => ({
      id: `specification ${kind} ${name} pdf`,
      title: t("palette.as_pdf", { title }),
      run: () => downloadSpecification(kind, name, "pdf"),
      ...{ detail, aliases },
    })),
  ];
}
export const placeGroups = (): ListGroup<PlaceItem>[] => [
  { id: "pages", title: t("palette.pages"), items: [...pageItems(), ...otherPageItems()] },
  { id: "connections", title: t("page.connections"), items: connectionItems() },
  { id: "definitions", title: t("palette.definitions"), items: definitionItems() },
  { id: "specifications", title: t("palette.specifications"), items: specificationItems() },
];
