export { formatName } from "./personNames";
export { CODES, LANGUAGES, locale, t } from "./catalogue.svelte";
export {
  ageBetween,
  formatAge,
  formatCountdown,
  formatDate,
  formatDateTime,
  formatDuration,
  formatRelative,
  formatTagDate,
  formatTime,
} from "./dates";
