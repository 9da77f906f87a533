// The words for what a shadow run has found.
import { expect, test } from "vitest";
import { addTexts } from "../../texts";
import proofs from "../../texts/proofs.json";
import { percent, sentences, targetWords, toneOfDifference, wordsOf, type Result } from "./shadow";

addTexts(proofs);

const RESULT: Result = {
  compared: 5000,
  differ: 40,
  total: 41_208,
  estimate: { share: 0.008, margin: 0.0025 },
  classes: { accepted_to_refused: 2, refused_to_accepted: 1 },
  fields: [],
};

test("while a run lasts, an estimate with its margin; then the counts", () => {
  expect(sentences(RESULT, "messages", true)).toEqual([
    "0.8 % of the messages give another result (± 0.3 %): 5,000 of 41,208 compared.",
    "2 are refused now.",
  ]);
  expect(sentences({ ...RESULT, compared: 41_208, differ: 312 }, "messages", false)[0]).toBe(
    "312 of 41,208 messages give another result.",
  );
});

test("without a difference, how many may differ at most", () => {
  const same = { ...RESULT, differ: 0, estimate: { share: 0, margin: 0.0006 }, classes: {} };
  expect(sentences(same, "deliveries", true)).toEqual([
    "None of 5,000 compared results differs; of all 41,208 at most 0.1 % do.",
  ]);
  expect(sentences({ ...same, compared: 0 }, "messages", true)).toEqual([
    "The first messages are compared.",
  ]);
});

test("new refusals are red, new acceptances green, and each has its words", () => {
  const outcome = (field: string) => ({
    ...{ field, name: "", kind: "outcome" as const, count: 1, ids: [] },
  });
  expect(wordsOf(outcome("accepted_to_refused"))).toBe("refused now");
  expect(toneOfDifference(outcome("accepted_to_refused"))).toBe("red");
  expect(wordsOf(outcome("refused_to_accepted"))).toBe("refused before, accepted now");
  expect(toneOfDifference(outcome("refused_to_accepted"))).toBe("ok");
  expect(wordsOf(outcome("sent_to_not_sent"))).toBe("not sent now");
});

test("targets and fields have names", () => {
  expect(targetWords("tag:Modality")).toBe("Modality");
  expect(targetWords("meta:Room")).toBe("Metadata Room");
  expect(targetWords("OBX-5", "Observation Value")).toBe("OBX-5 Observation Value");
  expect(targetWords("order:control")).toBe("order control");
  expect([percent(0), percent(0.0004), percent(0.123), percent(0.03)]).toEqual([
    ...["0 %", "< 0.1 %", "12 %", "3.0 %"],
  ]);
});
