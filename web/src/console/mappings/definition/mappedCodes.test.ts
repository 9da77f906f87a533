import { expect, test } from "vitest";
import type { UnmappedCode } from "../types";
import { mappedCodes, searchOf } from "./mappedCodes";

const row = (changed: Partial<UnmappedCode>): UnmappedCode => ({
  mapping: "orders",
  code_table: "modality",
  code: "24",
  place: "OBR-24",
  policy: "empty",
  back: false,
  count: 3,
  first_at: 9_000_000,
  last_at: 9_500_000,
  seen_at: null,
  seen_by: "",
  value: "CT",
  ...changed,
});

test("the codes of one place are searched for together, from the first message on", () => {
  const found = mappedCodes(
    [row({}), row({ code: "25", value: "MR", count: 2, first_at: 8_000_000 })],
    "orders",
  );
  expect(found).toEqual([
    {
      place: "OBR-24",
      codes: [
        { code: "24", value: "CT" },
        { code: "25", value: "MR" },
      ],
      count: 5,
      since: 8_000_000,
    },
  ]);
  expect(found.map((codes) => searchOf("orders", codes))).toEqual([
    {
      selection: {
        list: "messages",
        filters: { definition: ["orders"], since: 4_400_000 },
        except_ids: [],
      },
      options: { where: { "OBR-24": ["24", "25"] } },
    },
  ]);
});

test("codes without an entry, of results, of other definitions, or without a name are left out", () => {
  const others = [
    { value: "" },
    { back: true },
    { mapping: "mdm" },
    { code: "" },
    { place: "$site" },
  ];
  expect(mappedCodes(others.map(row), "orders")).toEqual([]);
});
