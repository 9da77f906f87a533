// The numbers of the navigation from the overview of a server that has no stream yet.
import { poll } from "./api";
import type { Heads, OverviewData } from "./api-types";

export async function legacyHeads(signal: AbortSignal): Promise<Heads> {
  const { channels, needs } = await poll<OverviewData>("/console/api/overview", signal);
  const severities = channels.map((channel) => channel.condition?.severity);
  return {
    message: 0,
    delivery: 0,
    attention: needs.length,
    deliveries_failed: 0,
    worst: severities.includes("red") ? "red" : severities.includes("amber") ? "amber" : "ok",
    jobs: [],
    activation: 0,
    build: "",
  };
}
