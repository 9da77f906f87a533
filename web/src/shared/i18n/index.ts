export { CODES, locale, t } from "./catalogue.svelte";
export { formatDate, formatDateTime, formatRelative } from "./dates";
