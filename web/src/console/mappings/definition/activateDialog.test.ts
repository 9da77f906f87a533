import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { beforeAll, expect, it, vi } from "vitest";
import { addTexts } from "../../texts";
import mapping from "../../texts/mapping.json";
import ActivateDialog from "./ActivateDialog.svelte";
import { DefinitionDraft } from "./draft.svelte";

beforeAll(() => addTexts(mapping));

it("activates a draft once, even if its button is clicked again before the response", async () => {
  const requests: string[] = [];
  vi.stubGlobal("fetch", (path: string) => {
    requests.push(path);
    return new Promise(() => undefined);
  });
  document.body.append(Object.assign(document.createElement("div"), { id: "floats" }));
  const onactivated = () => Promise.resolve();
  const draft = new DefinitionDraft("orders-north");
  render(ActivateDialog, { draft, onclose: () => undefined, onactivated });
  const reason = screen.getByRole("textbox", { name: "Reason" });
  await fireEvent.input(reason, { target: { value: "a test" } });
  const button = screen.getByRole("button", { name: "Activate orders-north" });
  await fireEvent.click(button);
  await fireEvent.click(button);
  const count = () => requests.filter((path) => path.endsWith("/activate")).length;
  await waitFor(() => expect(count()).toBe(1));
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(count()).toBe(1);
});
