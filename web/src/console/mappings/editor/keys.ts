// The name of a key press, such as "Mod-Shift-k". Mod is Ctrl, on a Mac the command key; only there
// Ctrl has a name of its own.
const IS_MAC = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.userAgent);

/** Signs that the shift key or the layout hides. */
const CODES: Readonly<Record<string, string>> = {
  BracketLeft: "[",
  BracketRight: "]",
  Backslash: "\\",
};

export function keyOf(event: KeyboardEvent): string {
  const { altKey, shiftKey, code } = event;
  const isMod = IS_MAC ? event.metaKey : event.ctrlKey;
  const control = IS_MAC && event.ctrlKey ? "Ctrl-" : "";
  const sign = isMod ? CODES[code] : undefined;
  const key = sign ?? (event.key.length === 1 ? event.key.toLowerCase() : event.key);
  const hasShift = shiftKey && key !== "/"; // some layouts need it for the sign
  return `${control}${isMod ? "Mod-" : ""}${altKey ? "Alt-" : ""}${hasShift ? "Shift-" : ""}${key}`;
}
