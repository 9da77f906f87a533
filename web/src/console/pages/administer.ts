// The pages of sites, roles and the audit trail: one chunk.
export { default as Access } from "../administration/Access.svelte";
export { default as Audit } from "../administration/AuditTrail.svelte";
export { default as Sites } from "../administration/Sites.svelte";
