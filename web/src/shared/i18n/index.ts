export { CODES, locale, t } from "./catalogue.svelte";
export {
  formatAge,
  formatDate,
  formatDateTime,
  formatRelative,
  formatTagDate,
  formatTime,
} from "./dates";
