import { expect, it } from "vitest";
import { withReplies } from "./fittingSettings";

it("adds the entries that the setting does not have, and changes none", () => {
  const fitting = ["AE 205 = delivered", "mismatch = delivered"];
  expect(withReplies("", fitting)).toBe("AE 205 = delivered\nmismatch = delivered");
  expect(withReplies("AR = park\nAE 205 = retry\n", fitting)).toBe(
    "AR = park\nAE 205 = retry\nmismatch = delivered",
  );
});
