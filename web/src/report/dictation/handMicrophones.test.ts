import { ButtonEvent } from "dictation_support";
import { expect, it } from "vitest";
import { BUTTONS, actionsOf } from "./handMicrophones";

it("executes the action of a button once when it is pressed, and none when it is released", () => {
  const { RECORD, TAB_FORWARD, COMMAND } = ButtonEvent;
  expect(actionsOf(RECORD, 0)).toEqual(["toggle"]);
  expect(actionsOf(RECORD, RECORD)).toEqual([]);
  expect(actionsOf(0, RECORD)).toEqual([]);
  expect(actionsOf(RECORD | TAB_FORWARD, RECORD)).toEqual(["next"]);
  expect(actionsOf(COMMAND, 0)).toEqual([]);
});

it("uses bits that the devices define", () => {
  for (const bit of Object.keys(BUTTONS)) expect(ButtonEvent[Number(bit)]).toBeTypeOf("string");
});
