// The pages of connections: one chunk.
import { addTexts } from "../texts";
import configure from "../texts/configure.json";
import connections from "../texts/connections.json";
import specification from "../texts/specification.json";

addTexts(connections);
addTexts(configure);
addTexts(specification);
export { default as Connection } from "./connections/Connection.svelte";
export { default as Connections } from "./connections/Connections.svelte";
export { default as DicomPeer } from "./connections/DicomPeer.svelte";
export { default as NewConnection } from "./connections/NewConnection.svelte";
