// The pages of one message and one delivery: one chunk.
import { addTexts } from "../texts";
import detail from "../texts/detail.json";

addTexts(detail);

export { default as Delivery } from "./deliveries/Delivery.svelte";
export { default as Message } from "./messages/Message.svelte";
