// The modality worklist, and merged patients: one chunk.
import { addTexts } from "../texts";
import lists from "../texts/lists.json";
import merges from "../texts/merges.json";
import patients from "../texts/patients.json";
import steps from "../texts/steps.json";

for (const catalogue of [lists, merges, patients, steps]) addTexts(catalogue);

export { default as Steps } from "./worklist/Steps.svelte";
export { default as Merges } from "./worklist/Merges.svelte";
