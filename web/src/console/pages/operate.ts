// The pages of daily work: one chunk.
import { addTexts } from "../texts";
import connections from "../texts/connections.json";

addTexts(connections);
export { default as Overview } from "./overview/Overview.svelte";
export { default as Messages } from "../messages/Messages.svelte";
export { default as Deliveries } from "../messages/Deliveries.svelte";
export { default as Orders } from "./orders/Orders.svelte";
export { default as Attention } from "../messages/Parked.svelte";
