import { ButtonEvent } from "dictation_support";
import { expect, it } from "vitest";
import { BUTTONS, deedsOf } from "./hand";

it("does once what a button asks for when it is pressed, and nothing when it is let go", () => {
  const { RECORD, TAB_FORWARD, COMMAND } = ButtonEvent;
  expect(deedsOf(RECORD, 0)).toEqual(["toggle"]);
  expect(deedsOf(RECORD, RECORD)).toEqual([]);
  expect(deedsOf(0, RECORD)).toEqual([]);
  expect(deedsOf(RECORD | TAB_FORWARD, RECORD)).toEqual(["next"]);
  expect(deedsOf(COMMAND, 0)).toEqual([]);
});

it("names bits that the devices have", () => {
  for (const bit of Object.keys(BUTTONS)) expect(ButtonEvent[Number(bit)]).toBeTypeOf("string");
});
