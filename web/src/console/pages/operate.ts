// The pages of daily work: one chunk.
import { addTexts } from "../texts";
import connections from "../texts/connections.json";
import lists from "../texts/lists.json";

addTexts(connections);
addTexts(lists);

export { default as Overview } from "./overview/Overview.svelte";
export { default as Messages } from "./messages/Messages.svelte";
export { default as Deliveries } from "./deliveries/Deliveries.svelte";
export { default as Orders } from "./orders/Orders.svelte";
export { default as Attention } from "../messages/Parked.svelte";
export { default as Jobs } from "./jobs/Jobs.svelte";
export { default as Job } from "./jobs/Job.svelte";
