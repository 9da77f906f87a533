// The words for the proof of an activation.
import { beforeAll, expect, it } from "vitest";
import { addTexts } from "../../texts";
import mapping from "../../texts/mapping.json";
import type { Evidence } from "../types";
import { proofWords } from "./proof";

beforeAll(() => addTexts(mapping));

const WHOLE: Evidence = {
  job: 7,
  state: "done",
  before: "3f9a21c4",
  days: 7,
  compared: 41208,
  differ: 312,
  total: 41208,
  estimate: { share: 0.0076, margin: 0.003 },
  classes: { accepted_to_refused: 2, refused_to_accepted: 5 },
};

it.each([
  ["no shadow run", null, "–"],
  ["all messages", WHOLE, "41,208 messages compared, 312 differ, 2 are no longer read"],
  ["nothing lost", { ...WHOLE, classes: {} }, "41,208 messages compared, 312 differ"],
  [
    "a run that still lasted",
    { ...WHOLE, state: "running", compared: 5000, classes: {} },
    "5,000 of 41,208 messages compared, 0.8 % (± 0.3 %) differ",
  ],
  ["a run that had only begun", { ...WHOLE, state: "running", compared: 0 }, "shadow run begun"],
] as const)("proof of %s", (_, evidence, words) => {
  expect(proofWords(evidence)).toBe(words);
});
