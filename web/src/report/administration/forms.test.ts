// Input that is typed while a request is pending is kept.
import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { expect, it } from "vitest";
import { createApi } from "../../shared/api/client";
import Groups from "./Groups.svelte";
import Site from "./Site.svelte";
import Templates from "./Templates.svelte";
import Users from "./Users.svelte";

/** A service that answers reads at once, and a change when the test releases it. */
function service(read: (path: string) => unknown) {
  const held: (() => void)[] = [];
  const api = createApi({ token: null }, (path, init) => {
    const answer = new Response(JSON.stringify(read(String(path))));
    if ((init?.method ?? "GET") === "GET") return Promise.resolve(answer);
    return new Promise((resolve) => held.push(() => resolve(answer)));
  });
  const arrive = async () => {
    await waitFor(() => expect(held).toHaveLength(1));
    held.pop()?.();
    await new Promise((resolve) => setTimeout(resolve, 30));
  };
  return { api, arrive };
}

const field = (label: string) => screen.getByLabelText<HTMLInputElement>(label);
const type = (label: string, value: string) => fireEvent.input(field(label), { target: { value } });
const press = (name: string) => fireEvent.click(screen.getByRole("button", { name }));

it("keeps the next user while the previous one is added", async () => {
  const { api, arrive } = service(() => []);
  render(Users, { api, siteId: "SITE1" });
  await type("E-mail", "ada@site.test");
  await type("Name", "Ada");
  await press("Add");
  await type("E-mail", "bo@site.test");
  await arrive();
  const kept = ["E-mail", "Name"].map((label) => field(label).value);
  expect(kept).toEqual(["bo@site.test", ""]);
});

it("keeps another group that was opened during the save", async () => {
  const group = { name: "CT", tags: ["ct"], members: ["ada"], reviewers: null, configured: true };
  const { api, arrive } = service(() => [group]);
  render(Groups, { api, siteId: "SITE1" });
  await screen.findByText("CT");
  await type("Name", "MR");
  await type("Tags, one per line", "ct");
  await press("Save");
  await press("Edit CT");
  await arrive();
  const kept = [field("Name").value, field("Tags, one per line").value];
  expect(kept).toEqual(["CT", "ct"]);
});

it("keeps the next template", async () => {
  const { api, arrive } = service(() => []);
  render(Templates, { api, siteId: "SITE1" });
  await waitFor(() => expect(field("Number").value).toBe("1"));
  await type("Name", "Chest");
  await type("Text", "Lungs:");
  await press("Save");
  await type("Text", "Liver:");
  await arrive();
  expect([field("Name").value, field("Text").value]).toEqual(["", "Liver:"]);
});

it("keeps a site's settings while earlier ones are saved", async () => {
  const settings = { syncLaunchInFrame: false, browserInit: true };
  const lists = { locations: [], hostOrigins: [] };
  const site = { name: "North", timeZone: "UTC", signDelay: 5, ...lists, settings };
  const { api, arrive } = service((path) => (path.endsWith("hosts") ? [] : site));
  render(Site, { api, siteId: "SITE1" });
  await waitFor(() => expect(field("Name").value).toBe("North"));
  await press("Save");
  await type("Name", "South");
  await arrive();
  expect(field("Name").value).toBe("South");
});
