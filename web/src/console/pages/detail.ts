// The pages of one message and one delivery: one chunk.
export { default as Message } from "../messages/Message.svelte";
export { default as Delivery } from "../messages/Delivery.svelte";
