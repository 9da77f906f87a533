import { expect, it } from "vitest";
import { conditionOf } from "./contentSearch";

it("writes a search in content as a condition of a definition", () => {
  expect(conditionOf(" PV1-3.1 ", "is", " WARD1 ")).toEqual({ "PV1-3.1": "WARD1" });
  expect(conditionOf("Modality", "absent", "CT")).toEqual({ Modality: { absent: true } });
  expect(conditionOf("OBR-4.2", "present", "")).toEqual({ "OBR-4.2": { present: true } });
});

it("searches a contained text as it is, not as a pattern", () => {
  expect(conditionOf("OBR-4.2", "contains", "CT (a.b)*")).toEqual({
    "OBR-4.2": { matches: "CT \\(a\\.b\\)\\*" },
  });
});
