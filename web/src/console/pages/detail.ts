// The pages of one message and one delivery: one chunk.
import { addTexts } from "../texts";
import detail from "../texts/detail.json";
import patients from "../texts/patients.json";

for (const catalogue of [detail, patients]) addTexts(catalogue);

export { default as Delivery } from "./deliveries/Delivery.svelte";
export { default as Message } from "./messages/Message.svelte";
