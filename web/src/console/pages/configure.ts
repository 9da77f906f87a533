// The pages of connections: one chunk.
export { default as Connections } from "../connections/Connections.svelte";
