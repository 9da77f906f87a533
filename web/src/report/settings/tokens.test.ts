import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { expect, it } from "vitest";
import { createApi } from "../../shared/api/client";
import Tokens from "./Tokens.svelte";

it("creates one token, even if its button is clicked again before the response", async () => {
  const answers: ((response: Response) => void)[] = [];
  const api = createApi({ token: null }, (_, init) =>
    init?.method === "POST"
      ? new Promise((resolve) => answers.push(resolve))
      : Promise.resolve(new Response("[]")),
  );
  render(Tokens, { api });
  await fireEvent.input(screen.getByLabelText("Name"), { target: { value: "Viewer" } });
  const button = screen.getByRole("button", { name: "Create token" });
  await fireEvent.click(button);
  await fireEvent.click(button);
  expect(answers).toHaveLength(1);
  answers[0]?.(new Response('{"token": "rbt_1"}'));
  await waitFor(() => expect(screen.getByDisplayValue("rbt_1")).toBeTruthy());
});
