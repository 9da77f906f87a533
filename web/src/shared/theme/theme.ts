// The colour theme of the page.

export const THEMES = ["dark", "light", "system"] as const;
export type Theme = (typeof THEMES)[number];

/** Applies a theme at once; 'system' leaves the choice to the browser. */
export function applyTheme(theme: Theme, document: Document): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

/** The theme of the page. */
export function themeOf(document: Document): Theme {
  const worn = document.documentElement.dataset["theme"];
  return THEMES.find((theme) => theme === worn) ?? "system";
}
