export { CODES, locale, t } from "./catalogue.svelte";
export { formatDate, formatDateTime, formatRelative, formatTime } from "./dates";
