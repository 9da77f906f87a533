// The pages of sites, roles and the audit trail: one chunk.
import { addTexts } from "../texts";
import administer from "../texts/administer.json";
import lists from "../texts/lists.json";

addTexts(administer);
addTexts(lists);

export { default as Access } from "./administration/Access.svelte";
export { default as Audit } from "./audit/Audit.svelte";
export { default as Site } from "./administration/Site.svelte";
export { default as Sites } from "./administration/Sites.svelte";
