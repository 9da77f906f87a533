import { expect, it } from "vitest";
import { renew, sent } from "./renewed";

it("empties what was sent, and leaves what was typed while the answer was on its way", () => {
  const form = { email: "ada@site.test", name: "Ada", role: "user" };
  const arrived = sent(form, { email: "", name: "" });
  form.email = "bo@site.test";
  arrived();
  expect(form).toEqual({ email: "bo@site.test", name: "", role: "user" });
});

it("takes what an answer says, except where something else was typed", () => {
  const form = { zone: "UTC", delay: 5 };
  const before = { ...form };
  form.delay = 60;
  renew(form, before, { zone: "Europe/Berlin", delay: 5 });
  expect(form).toEqual({ zone: "Europe/Berlin", delay: 60 });
});
