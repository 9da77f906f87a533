import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { expect, it, vi } from "vitest";
import ActivateDialog from "./ActivateDialog.svelte";
import { DefinitionDraft } from "./draft.svelte";

it("activates a draft once, even if its button is clicked again before the response", async () => {
  const requests: string[] = [];
  vi.stubGlobal("fetch", (path: string) => {
    requests.push(path);
    return new Promise(() => undefined);
  });
  const onactivated = () => Promise.resolve();
  const draft = new DefinitionDraft("orders-north");
  render(ActivateDialog, { draft, onclose: () => undefined, onactivated });
  const reason = screen.getByRole("textbox", { hidden: true });
  await fireEvent.input(reason, { target: { value: "a test" } });
  const button = screen.getByRole("button", { name: /Activate/i, hidden: true });
  await fireEvent.click(button);
  await fireEvent.click(button);
  const count = () => requests.filter((path) => path.endsWith("/activate")).length;
  await waitFor(() => expect(count()).toBe(1));
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(count()).toBe(1);
});
