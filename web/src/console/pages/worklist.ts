// The modality worklist: one chunk.
import { addTexts } from "../texts";
import lists from "../texts/lists.json";
import steps from "../texts/steps.json";

for (const catalogue of [lists, steps]) addTexts(catalogue);

export { default as Steps } from "./worklist/Steps.svelte";
