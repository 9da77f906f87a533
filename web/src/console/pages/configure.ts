// The pages of connections: one chunk.
import { addTexts } from "../texts";
import configure from "../texts/configure.json";
import connections from "../texts/connections.json";
import imports from "../texts/import.json";
import partners from "../texts/partners.json";

addTexts(connections);
addTexts(configure);
addTexts(imports);
addTexts(partners);
export { default as Connection } from "./connections/Connection.svelte";
export { default as Connections } from "./connections/Connections.svelte";
export { default as NewConnection } from "./connections/NewConnection.svelte";
export { default as Examine } from "./examine/Examine.svelte";
export { default as Import } from "./import/Import.svelte";
