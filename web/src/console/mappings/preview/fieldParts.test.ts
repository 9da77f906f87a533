// @vitest-environment node
import { expect, it } from "vitest";
import { dividedFields, partsOfField } from "./fieldParts";

const USED = ["PID-3", "PID-3.1", "PID-3[3]", "OBR[2]-4", "OBR[2]-4.1"];
const UNUSED = ["PID-2", "PID-3.5", "PID-3[2]"];

it("splits the fields whose parts the service named", () => {
  expect([...dividedFields([...USED, ...UNUSED])]).toEqual(["PID-3", "OBR[2]-4"]);
});

it("uses the service's paths for repetitions and components, and loses no character", () => {
  const state = (place: string) =>
    USED.includes(place) ? "used" : UNUSED.includes(place) ? "unused" : "";
  const text = "M1^^^^MR~X2^^^Y^ZZ~M3";
  const parts = partsOfField("PID-3", text, "^~\\&", state);
  expect(parts.map((part) => part.text).join("")).toBe(text);
  expect(
    parts.filter((part) => part.state).map((part) => [part.place, part.text, part.state]),
  ).toEqual([
    ["PID-3.1", "M1", "used"],
    ["PID-3.5", "MR", "unused"],
    ["PID-3[2]", "X2^^^Y^ZZ", "unused"],
    ["PID-3[3]", "M3", "used"],
  ]);
});
