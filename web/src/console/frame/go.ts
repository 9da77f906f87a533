// Follows an address of the console, in this tab or a new one.
import { keepPrivate } from "../data/filter";
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

/** Shows the orders with a number, which is in no address; `order` is the one beside the list. */
export function showOrders(number: string, order?: string): void {
  const query = new URLSearchParams({ private: "1", ...(order ? { peek: order } : {}) });
  route.to("orders", {}, { query, private: keepPrivate({ number: [number] }, sessionStorage) });
}
