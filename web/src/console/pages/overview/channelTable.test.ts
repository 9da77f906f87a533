// Rows of the overview keep their places while a person is in the table.
import { fireEvent, render, screen } from "@testing-library/svelte";
import { beforeAll, expect, it } from "vitest";
import type { ChannelSummary } from "../../data/api-types";
import { addTexts } from "../../texts";
import connections from "../../texts/connections.json";
import ChannelTable from "./ChannelTable.svelte";

beforeAll(() => addTexts(connections));

const channel = (name: string, isRed: boolean): ChannelSummary => ({
  ...{ kind: "listener", name, sites: ["S1"], shared: false, enabled: true, state: "running" },
  condition: isRed ? { severity: "red", text: "refuses" } : null,
  ...{ rate: 3, errors: isRed ? 5 : 0, share: 0.5, waiting: 0, oldest: null, p50: 4, p99: 9 },
  ...{ spark: [1, 2], spark_bad: [0, 0], active_at: null, certificate: null },
});
const names = () =>
  screen
    .getAllByRole("link", { name: /, listener$/ })
    .map((link) => link.textContent?.split(",")[0]?.trim());

it("sorts problems first, and again only when the pointer has left", async () => {
  const props = { now: 0, changed: () => undefined, ontest: () => undefined };
  const shown = render(ChannelTable, { ...props, rows: [channel("a", false), channel("b", true)] });
  expect(names()).toEqual(["b", "a"]);
  const table = screen.getByRole("grid", { name: "Connections" });
  await fireEvent.pointerEnter(table.closest("[role=presentation]") as Element);
  await shown.rerender({ rows: [channel("a", true), channel("b", false)] });
  expect(names()).toEqual(["b", "a"]);
  await fireEvent.pointerLeave(table.closest("[role=presentation]") as Element);
  expect(names()).toEqual(["a", "b"]);
});

it("leads from errors to the failed messages, and tells nothing of other sites", () => {
  const shared = { ...channel("c", false), shared: true, rate: null, errors: null, waiting: null };
  render(ChannelTable, {
    ...{ now: 60_000, changed: () => undefined, ontest: () => undefined },
    rows: [channel("b", true), shared],
  });
  const link = screen.getByRole("link", { name: /errors of b/ });
  expect(link.getAttribute("href")).toBe("/console/messages?channel=b&state=failed&since=1h");
  const rate = screen.getByRole("link", { name: /messages of b in the last minute/ });
  expect(rate.getAttribute("href")).toBe("/console/messages?channel=b&since=0&until=60000");
  expect(screen.queryByRole("link", { name: /of c/ })).toBeNull();
});
