// The lists of daily work and their pages: one chunk.
import { addTexts } from "../texts";
import attention from "../texts/attention.json";
import connections from "../texts/connections.json";
import lists from "../texts/lists.json";
import order from "../texts/order.json";

for (const catalogue of [attention, connections, lists, order]) addTexts(catalogue);

export { default as Messages } from "./messages/Messages.svelte";
export { default as Deliveries } from "./deliveries/Deliveries.svelte";
export { default as Orders } from "./orders/Orders.svelte";
export { default as Order } from "./orders/Order.svelte";
export { default as Attention } from "./attention/Attention.svelte";
export { default as Jobs } from "./jobs/Jobs.svelte";
export { default as Job } from "./jobs/Job.svelte";
