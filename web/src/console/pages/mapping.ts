// The pages of definitions: one chunk.
import { addTexts } from "../texts";
import detail from "../texts/detail.json";
import mapping from "../texts/mapping.json";
import proofs from "../texts/proofs.json";

addTexts(detail); // the map of a message
addTexts(mapping);
addTexts(proofs);

export { default as Definition } from "../mappings/definition/Definition.svelte";
export { default as FromMessages } from "./mappings/FromMessages.svelte";
export { default as Mappings } from "./mappings/Mappings.svelte";
