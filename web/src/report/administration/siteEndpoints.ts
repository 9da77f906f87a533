// The URLs of a site's administration endpoints.
import { ACCOUNT } from "../home/account.svelte";

/** Returns the address of a part of a site's administration. */
export const siteAddress = (siteId: string, part = ""): string =>
  `${ACCOUNT}/admin/sites/${encodeURIComponent(siteId)}${part}`;

/** Returns the non-empty lines of a text. */
export const linesOf = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
