// The pages of definitions: one chunk; the editor loads CodeMirror when it opens.
export { default as Definition } from "../mappings/definition/Definition.svelte";
export { default as Mappings } from "../mappings/Mappings.svelte";
