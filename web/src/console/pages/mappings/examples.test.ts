import { expect, test } from "vitest";
import { fieldName } from "./examples";

test("a field has the name of its tag, and of its order from the second one on", () => {
  expect(fieldName("ORC[1].clinical_info.Modality")).toBe("Modality");
  expect(fieldName("ORC[2].clinical_info.Modality")).toBe("ORC[2] Modality");
  expect(fieldName("OBR-32")).toBe("OBR-32");
});
