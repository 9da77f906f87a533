// The start page: a chunk of its own, because most visits do not need it.
import { addTexts } from "../texts";
import connections from "../texts/connections.json";
import start from "../texts/start.json";

addTexts(connections);
addTexts(start);
export { default as Start } from "./start/Start.svelte";
