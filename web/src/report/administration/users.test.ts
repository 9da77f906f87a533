import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { expect, it } from "vitest";
import { createApi } from "../../shared/api/client";
import Users from "./Users.svelte";

it("shows the users after the last change, even if an older list arrives later", async () => {
  let role = "user";
  const held: (() => void)[] = [];
  const api = createApi({ token: null }, (_, init) => {
    if (init?.method === "POST") {
      role = (JSON.parse(init.body as string) as { role: string }).role;
      return Promise.resolve(new Response(""));
    }
    const list = JSON.stringify([{ email: "rea@site.test", name: "Rea", role, disabled: false }]);
    return new Promise((resolve) => held.push(() => resolve(new Response(list))));
  });
  render(Users, { api, siteId: "SITE1" });
  await waitFor(() => expect(held).toHaveLength(1));
  held.pop()?.();
  const chosen = await screen.findByLabelText<HTMLSelectElement>("Role of rea@site.test");
  await fireEvent.change(chosen, { target: { value: "prelim" } });
  await waitFor(() => expect(held).toHaveLength(1));
  await fireEvent.change(chosen, { target: { value: "administrator" } });
  await new Promise((resolve) => setTimeout(resolve, 20));
  while (held.length) {
    held.pop()?.();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(chosen.value).toBe("administrator");
});
