// The languages by their own names, as people look for them.
import { CODES } from "./catalogue.svelte";

/** Every language code with its name in that language and, where several share it, the region. */
export const LANGUAGES: readonly { code: string; name: string }[] = CODES.map((code) => ({
  code,
  name: new Intl.DisplayNames([code], { type: "language" }).of(code) ?? code,
}));
