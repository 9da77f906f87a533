// The numbers of the navigation from the dashboard of a server that has no stream yet.
import type { DashboardData } from "../types";
import { poll } from "./api";
import type { Heads } from "./api-types";

const parkedIn = (queues: DashboardData["inbox"]) =>
  Object.values(queues).reduce((sum, queue) => sum + queue.parked, 0);

export async function legacyHeads(signal: AbortSignal): Promise<Heads> {
  const data = await poll<DashboardData>("/console/api/dashboard", signal);
  const all = [...data.listeners, ...data.destinations].filter((one) => one.enabled);
  const isRed = all.some((one) => one.trouble || one.open_until !== null || one.refused > 0);
  const isAmber = data.alerts.length > 0 || all.some((one) => one.paused_at !== null);
  return {
    message: 0,
    delivery: 0,
    attention: data.concerns + parkedIn(data.inbox) + parkedIn(data.outbox),
    deliveries_failed: parkedIn(data.outbox),
    worst: isRed ? "red" : isAmber ? "amber" : "ok",
    jobs: [],
    activation: 0,
    build: "",
  };
}
