// Which of the two colour sets the page wears.

export type Theme = "dark" | "light" | "system";

/** Applies a theme at once; 'system' leaves the choice to the browser. */
export function applyTheme(theme: Theme, document: Document): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}
