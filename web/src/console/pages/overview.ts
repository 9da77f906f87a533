// The overview: a chunk of its own, because most visits begin with it.
import { addTexts } from "../texts";
import connections from "../texts/connections.json";

addTexts(connections);

export { default as Overview } from "./overview/Overview.svelte";
