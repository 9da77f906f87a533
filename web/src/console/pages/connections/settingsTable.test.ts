// @vitest-environment node
// Form values become a settings table, and a settings table becomes form values.
import { expect, test } from "vitest";
import { addressOf, tableOf, transportOf, typed, valuesOf, type FieldSpec } from "./settingsTable";

const field = (name: string, kind: FieldSpec["kind"], of: unknown = null): FieldSpec => ({
  ...{ name, kind, choices: [], default: of, required: false, help: "" },
});
const FIELDS = [
  { ...field("name", "text"), required: true },
  field("sites", "words", ["*"]),
  field("events", "several", ["final"]),
  field("ack_timeout", "seconds", 30),
  field("breaker_after", "number", 5),
  field("fields", "pairs", {}),
  field("answer_files", "yes", false),
  field("tls.ca", "file"),
];

test("defaults are omitted, and a table survives the round trip", () => {
  const plain = { name: "a" };
  expect(tableOf(FIELDS, valuesOf(FIELDS, plain), false)).toEqual(plain);
  const table = {
    name: "a",
    sites: ["S1", "S2"],
    events: ["final", "recall"],
    ack_timeout: "5s",
    breaker_after: 0,
    fields: { receiving_application: "RIS" },
    answer_files: true,
    tls: { ca: "tls/ca.pem" },
  };
  expect(tableOf(FIELDS, valuesOf(FIELDS, table), true)).toEqual(table);
});

test("TLS without files still enables TLS", () =>
  expect(tableOf(FIELDS, valuesOf(FIELDS, { name: "a", tls: {} }), true)).toEqual({
    name: "a",
    tls: {},
  }));

test("an inner table survives the round trip", () => {
  const fields = [...FIELDS, field("dicom.forms", "several", ["pdf", "sr"])];
  const table = { name: "a", dicom: { forms: ["sr"] } };
  expect(tableOf(fields, valuesOf(fields, table), false)).toEqual(table);
  expect(tableOf(fields, valuesOf(fields, { name: "a", dicom: {} }), false)).toEqual({ name: "a" });
});

test("an address is typed in the form of its transport", () => {
  for (const address of [
    ...["10.0.0.1:2575", "https://a.test/hl7", "folder:out/ris"],
    ...["dicom://PACS@10.0.0.1:104", "dicomweb+https://a.test/dicom"],
  ])
    expect(addressOf(transportOf(address), typed(address))).toBe(address);
  expect(addressOf("web", "a.test/hl7")).toBe("http://a.test/hl7");
  expect(addressOf("folder", " ")).toBe("");
  expect(addressOf("dicom", " ")).toBe("");
  expect(typed("dicom://PACS 1@10.0.0.1:104")).toBe("PACS 1@10.0.0.1:104");
  expect(addressOf("dicomweb", "pacs.test/dicom")).toBe("dicomweb+http://pacs.test/dicom");
});

test("stations and locations may contain blanks", () => {
  const fields = [field("stations", "words", []), field("modalities", "words", [])];
  const values = { stations: "US 1 , US 2", modalities: "CT MR" };
  expect(tableOf(fields, values, false)).toEqual({
    stations: ["US 1", "US 2"],
    modalities: ["CT", "MR"],
  });
});

test("a key may hold an equals sign", () => {
  const values = { ...valuesOf(FIELDS, { name: "a" }), fields: "a=b = c\n\n" };
  expect(tableOf(FIELDS, values, false)).toEqual({ name: "a", fields: { "a=b": "c" } });
});
