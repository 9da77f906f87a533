// The names of the languages, each in its own language.
import { CODES } from "./catalogue.svelte";

/** Every language code with its name in that language and, where several share it, the region. */
export const LANGUAGES: readonly { code: string; name: string }[] = CODES.map((code) => ({
  code,
  name: new Intl.DisplayNames([code], { type: "language" }).of(code) ?? code,
}));
