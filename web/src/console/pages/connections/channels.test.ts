// Connections: problems first, and where their numbers and needs lead.
import { expect, it } from "vitest";
import type { ChannelSummary } from "../../data/api-types";
import { inOrder, isProblem, listTarget } from "./channels";

const channel = (name: string, own: Partial<ChannelSummary> = {}): ChannelSummary => ({
  ...{ kind: "listener", name, sites: ["S1"], shared: false, enabled: true, state: "running" },
  ...{
    condition: null,
    rate: 0,
    errors: 0,
    share: 0,
    waiting: 0,
    oldest: null,
    p50: null,
    p99: null,
  },
  ...{ spark: [], spark_bad: [], active_at: null, certificate: null },
  ...own,
});
const red = { severity: "red" as const, text: "refuses" };
const amber = { severity: "amber" as const, text: "silent" };

it("puts problems first, then what waits longest, then the names; off comes last", () => {
  const rows = [
    channel("b10"),
    channel("off", { enabled: false, state: "off" }),
    channel("b9"),
    channel("waits", { oldest: 500 }),
    channel("amber", { condition: amber }),
    channel("red", { condition: red, oldest: 900 }),
    channel("older red", { condition: red, oldest: 100 }),
  ];
  expect(rows.sort(inOrder).map(({ name }) => name)).toEqual([
    ...["older red", "red", "amber", "waits", "b9", "b10", "off"],
  ]);
  expect(rows.filter(isProblem)).toHaveLength(3);
});

it("leads from a number to the messages of a listener, or the deliveries of a destination", () => {
  expect(listTarget("listener", "ris a", { state: "failed", since: "1h" }).href).toBe(
    "/console/messages?channel=ris+a&state=failed&since=1h",
  );
  expect(listTarget("destination", "his").href).toBe("/console/deliveries?destination=his");
});
