// The pages of definitions: one chunk.
import { addTexts } from "../texts";
import detail from "../texts/detail.json";
import mapping from "../texts/mapping.json";

addTexts(detail); // the map of a message
addTexts(mapping);

export { default as Definition } from "../mappings/definition/Definition.svelte";
export { default as Mappings } from "../mappings/Mappings.svelte";
