// Follows an address of the console, in this tab or a new one.
import { matchOf } from "./routes";
import { route } from "./route.svelte";

export function go(address: string, newTab = false): void {
  if (newTab) {
    window.open(address, "_blank", "noopener");
    return;
  }
  const url = new URL(address, location.origin);
  const { page, params } = matchOf(url.pathname);
  if (page) route.to(page, params, { query: url.searchParams });
  else location.assign(address);
}
