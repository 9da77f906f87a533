export { CODES, locale, t } from "./catalogue.svelte";
export { formatDate, formatDateTime, formatRelative, formatTagDate, formatTime } from "./dates";
