// Codes in messages that a code table lacks.
import type { UnmappedCode } from "../../mappings/types";

/** True if nobody has added an entry or decided that the code needs none. */
export const isOpen = (row: UnmappedCode): boolean => row.value === "" && row.seen_at === null;
