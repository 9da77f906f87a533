// The proof of identity before a sensitive action.
import { expect, it, vi } from "vitest";
import { ApiProblem, type Api } from "../api/client";
import { Confirmation } from "./confirmation.svelte";
import { withReauthentication } from "./reauthentication.svelte";

const answering = (get: () => Promise<unknown>, post: () => Promise<unknown>) =>
  ({ get: vi.fn(get), post: vi.fn(post) }) as unknown as Api & { post: ReturnType<typeof vi.fn> };

it("sends the password and a code if there is one, and lets the request go on", async () => {
  const api = answering(
    () => Promise.resolve({ password: true }),
    () => Promise.resolve({}),
  );
  const refusal = { code: "reauthentication_required" };
  const answers = [
    new Response(JSON.stringify(refusal), { status: 403 }),
    new Response("{}", { status: 200 }),
  ];
  const request = withReauthentication(() => Promise.resolve(answers.shift() as Response))("/x");
  await new Promise((resolve) => setTimeout(resolve));
  const confirmation = new Confirmation(api, "unreachable");
  await confirmation.load();
  [confirmation.password, confirmation.code] = ["secret", " 123456 "];
  await confirmation.confirm();
  expect(api.post).toHaveBeenCalledWith("/reporting/api/account/confirm", {
    password: "secret",
    code: "123456",
  });
  expect((await request).status).toBe(200);
  expect(confirmation.password).toBe("");
});

it("says why a proof was refused, and forgets what was typed", async () => {
  const api = answering(
    () => Promise.resolve({ password: false }),
    () => Promise.reject(new ApiProblem(403, "wrong_password", "The password is wrong.")),
  );
  const confirmation = new Confirmation(api, "unreachable");
  await confirmation.load();
  expect(confirmation.hasPassword).toBe(false);
  confirmation.password = "guess";
  await confirmation.confirm();
  expect([confirmation.problem, confirmation.password]).toEqual(["The password is wrong.", ""]);
});

it("says that the service cannot be reached", async () => {
  const lost = () => Promise.reject(new TypeError("failed to fetch"));
  const confirmation = new Confirmation(answering(lost, lost), "unreachable");
  await confirmation.load();
  expect(confirmation.problem).toBe("unreachable");
});
