import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { expect, it, vi } from "vitest";
import { createApi } from "../../shared/api/client";
import { announcements } from "../../shared/widgets/announcements.svelte";
import AssignDialog from "./AssignDialog.svelte";
import type { Row } from "./rows";

it("does not close the next report's dialog when its response arrives after it was closed", async () => {
  let answer: (response: Response) => void = () => undefined;
  const api = createApi({ token: null }, () => new Promise((resolve) => (answer = resolve)));
  const row = { reportId: "R1", status: "Ordered", userEmail: "", orders: [] } as unknown as Row;
  const onclose = vi.fn();
  const readers = [{ email: "rea@site.test", name: "Rea" }];
  const shown = render(AssignDialog, { api, row, readers, onclose });
  await fireEvent.click(screen.getByRole("button", { name: "Assign" }));
  shown.unmount();
  answer(new Response(""));
  await waitFor(() => expect(announcements.list).toHaveLength(1));
  expect(onclose).not.toHaveBeenCalled();
});
