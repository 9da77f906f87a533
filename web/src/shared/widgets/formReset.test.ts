// @vitest-environment node
import { expect, it } from "vitest";
import { updateUnchanged, clearAfterSend } from "./formReset";

it("clears the sent values, and keeps input that was typed while the request was pending", () => {
  const form = { email: "ada@site.test", name: "Ada", role: "user" };
  const arrived = clearAfterSend(form, { email: "", name: "" });
  form.email = "bo@site.test";
  arrived();
  expect(form).toEqual({ email: "bo@site.test", name: "", role: "user" });
});

it("takes the values of a response, except in fields that were changed", () => {
  const form = { zone: "UTC", delay: 5 };
  const before = { ...form };
  form.delay = 60;
  updateUnchanged(form, before, { zone: "Europe/Berlin", delay: 5 });
  expect(form).toEqual({ zone: "Europe/Berlin", delay: 60 });
});
