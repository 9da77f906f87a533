import { fireEvent, render, screen } from "@testing-library/svelte";
import { expect, it, vi } from "vitest";
import App from "../App.svelte";

it("stays on the page and shows an error if the session could not be ended", async () => {
  const me = { email: "olga@site.test", name: "Olga", permissions: [], sites: null, zones: {} };
  vi.stubGlobal("fetch", (path: string) =>
    path === "/console/api/me"
      ? Promise.resolve(new Response(JSON.stringify(me)))
      : Promise.reject(new TypeError("offline")),
  );
  const { location } = window;
  const assign = vi.fn();
  vi.stubGlobal("location", { ...location, assign });
  render(App, { refusal: "" });
  await fireEvent.click(await screen.findByRole("button", { name: "Account of Olga" }));
  await fireEvent.click(await screen.findByRole("button", { name: "Sign out", hidden: true }));
  await screen.findByRole("alert");
  expect(assign).not.toHaveBeenCalled();
});
