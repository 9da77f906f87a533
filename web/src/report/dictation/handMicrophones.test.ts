import { ButtonEvent } from "dictation_support";
import { expect, it } from "vitest";
import { BUTTONS, actionsOf } from "./handMicrophones";

it("does once what a button asks for when it is pressed, and nothing when it is let go", () => {
  const { RECORD, TAB_FORWARD, COMMAND } = ButtonEvent;
  expect(actionsOf(RECORD, 0)).toEqual(["toggle"]);
  expect(actionsOf(RECORD, RECORD)).toEqual([]);
  expect(actionsOf(0, RECORD)).toEqual([]);
  expect(actionsOf(RECORD | TAB_FORWARD, RECORD)).toEqual(["next"]);
  expect(actionsOf(COMMAND, 0)).toEqual([]);
});

it("names bits that the devices have", () => {
  for (const bit of Object.keys(BUTTONS)) expect(ButtonEvent[Number(bit)]).toBeTypeOf("string");
});
