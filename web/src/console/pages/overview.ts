// The overview: a chunk of its own, because most visits begin with it.
import { addTexts } from "../texts";
import attention from "../texts/attention.json";
import connections from "../texts/connections.json";

for (const catalogue of [attention, connections]) addTexts(catalogue);

export { default as Overview } from "./overview/Overview.svelte";
