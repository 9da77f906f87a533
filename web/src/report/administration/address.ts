// Where the administrative endpoints of a site are for whoever is signed in.
import { ACCOUNT } from "../home/account.svelte";

/** Returns the address of a part of a site's administration. */
export const siteAddress = (siteId: string, part = ""): string =>
  `${ACCOUNT}/admin/sites/${encodeURIComponent(siteId)}${part}`;

/** Returns the lines of a text that say something. */
export const linesOf = (text: string): string[] =>
  text
    .split("\n")
    .map((each) => each.trim())
    .filter(Boolean);
