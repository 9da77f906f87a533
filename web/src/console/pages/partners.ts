// Pages about partners that are not connected yet: examinations and imports; one chunk.
import { addTexts } from "../texts";
import examine from "../texts/examine.json";
import imports from "../texts/import.json";

addTexts(examine);
addTexts(imports);
export { default as Examine } from "./examine/Examine.svelte";
export { default as Import } from "./import/Import.svelte";
