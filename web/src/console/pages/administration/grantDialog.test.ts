// Giving a role: what is sent, what is missing, and what the dialog warns of.
import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { beforeAll, expect, it, vi } from "vitest";
import { addTexts } from "../../texts";
import administer from "../../texts/administer.json";
import type { Grant } from "./access";
import GrantDialog from "./GrantDialog.svelte";

beforeAll(() => addTexts(administer));

const limited: Grant = {
  ...{ accountId: "7", email: "vera@site1.test", role: "viewer", bodies: false, sites: ["S1"] },
  ...{ pending: false, secondFactor: false, disabled: false },
};
function shown(grant: Grant | null) {
  document.body.append(Object.assign(document.createElement("div"), { id: "floats" }));
  const onsave = vi.fn(() => Promise.resolve(""));
  render(GrantDialog, { grant, sites: [{ SiteID: "S1", name: "One" }], onsave, onclose: vi.fn() });
  return onsave;
}
const press = (name: string) => fireEvent.click(screen.getByRole("button", { name }));

it("asks for the e-mail address, and for a site of a site administrator", async () => {
  const onsave = shown(null);
  await press("Assign role");
  expect(screen.getByText("Give the e-mail address of the account.")).toBeTruthy();
  await fireEvent.click(screen.getByRole("radio", { name: /^Site administrator/ }));
  expect(screen.getByText("Choose at least one site.")).toBeTruthy();
  expect(onsave).not.toHaveBeenCalled();
});

it("sends the role with its sites", async () => {
  const onsave = shown(limited);
  await fireEvent.click(screen.getByRole("switch", { name: "May read message content" }));
  await press("Save");
  const body = { role: "viewer", bodies: true, sites: ["S1"] };
  await waitFor(() => expect(onsave).toHaveBeenCalledExactlyOnceWith("vera@site1.test", body));
});

it("warns before a role that is limited to sites is for all of them", async () => {
  const onsave = shown(limited);
  await fireEvent.click(screen.getByRole("radio", { name: /^Mapping author/ }));
  expect(screen.getByText(/It will be for all sites/)).toBeTruthy();
  await press("Save");
  const body = { role: "mapping-author", bodies: false, sites: null };
  await waitFor(() => expect(onsave).toHaveBeenCalledExactlyOnceWith("vera@site1.test", body));
});
