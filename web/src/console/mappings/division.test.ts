import { expect, it } from "vitest";
import { dividedBy, divisionOf } from "./division";

const USED = ["PID-3", "PID-3.1", "PID-3[3]", "OBR[2]-4", "OBR[2]-4.1"];
const UNUSED = ["PID-2", "PID-3.5", "PID-3[2]"];

it("divides the fields whose parts the server named", () => {
  expect([...dividedBy([...USED, ...UNUSED])]).toEqual(["PID-3", "OBR[2]-4"]);
});

it("names each repetition and component as the server does, and loses no character", () => {
  const state = (place: string) =>
    USED.includes(place) ? "used" : UNUSED.includes(place) ? "unused" : "";
  const text = "M1^^^^MR~X2^^^Y^ZZ~M3";
  const parts = divisionOf("PID-3", text, "^~\\&", state);
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
