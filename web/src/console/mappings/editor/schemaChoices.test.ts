// @vitest-environment node
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { choicesAt, takesPlaces, type Schema } from "./schemaChoices";

const published = JSON.parse(
  readFileSync("../docs/reference/mapping.schema.json", "utf8"),
) as Schema;
const labels = (path: (string | number)[], kind = "orders") =>
  choicesAt(published, path, kind).map((choice) => choice.label);

describe("the choices of the published schema", () => {
  it("names the members of a kind, and not those of another", () => {
    expect(labels([])).toEqual(expect.arrayContaining(["include", "accept", "tags", "metadata"]));
    expect(labels([])).not.toContain("segments");
    expect(labels([], "results")).toContain("segments");
    expect(labels([], "")).toEqual(expect.arrayContaining(["tags", "segments"]));
  });

  it("follows references and alternatives to nested keys and values", () => {
    expect(labels(["kind"])).toEqual([
      ...["orders", "outside-reports", "patients", "results", "status", "worklist"],
    ]);
    expect(labels(["tags"])).toEqual(expect.arrayContaining(["PatientMRN", "Accession"]));
    expect(labels(["tags", "PatientMRN"])).toEqual(expect.arrayContaining(["from", "required"]));
    expect(labels(["tags", "PatientName", "as"])).toContain("person-name");
    expect(labels(["tags", "PatientMRN", "from", 1])).toContain("codes");
    expect(labels(["accept", "senders", 0])).toContain("application");
    expect(labels(["metadata", "values", "Room"])).toContain("join");
    expect(labels(["tags", "Nothing", "like", "it"])).toEqual([]);
  });

  it("knows which values are paths of message fields", () => {
    expect(takesPlaces(published, ["tags", "Accession"], "orders")).toBe(true);
    expect(takesPlaces(published, ["tags", "Accession", "from", 0], "orders")).toBe(true);
    expect(takesPlaces(published, ["kind"], "orders")).toBe(false);
  });
});
