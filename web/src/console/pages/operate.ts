// The pages of daily work: one chunk.
export { default as Overview } from "../dashboard/Dashboard.svelte";
export { default as Messages } from "../messages/Messages.svelte";
export { default as Deliveries } from "../messages/Deliveries.svelte";
export { default as Orders } from "./orders/Orders.svelte";
export { default as Attention } from "../messages/Parked.svelte";
