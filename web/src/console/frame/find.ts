// Searches for a number or a name that a caller has. It goes with a POST: it may be patient data.
import { ApiProblem } from "../../shared/api/client";
import { api } from "../data/api";
import type { Found, Hit } from "../data/api-types";
import type { TrackedOrders } from "../types";

let isOld = false;
const NOTHING: Found = {
  orders: [],
  messages: [],
  deliveries: [],
  channels: [],
  definitions: [],
  similar: [],
  kinds: [],
};

export async function find(text: string, signal: AbortSignal): Promise<Found> {
  if (!isOld) {
    try {
      return await api.post<Found>("/console/api/find", { text }, { signal });
    } catch (error) {
      if (!(error instanceof ApiProblem && [404, 405].includes(error.status))) throw error;
      isOld = true; // a server without this endpoint
    }
  }
  const found = await api.post<TrackedOrders>(
    "/console/api/orders/find",
    { accession: text },
    { signal },
  );
  const hit = (one: Partial<Hit> & Pick<Hit, "id" | "title">): Hit => ({
    detail: "",
    state: "",
    at: null,
    exact: true,
    ...one,
  });
  return {
    ...NOTHING,
    orders: found.orders.map((order) =>
      hit({
        id: order.accession,
        title: order.accession,
        detail: [order.site, order.now || order.status].filter(Boolean).join(" · "),
      }),
    ),
    messages: found.messages.map((row) =>
      hit({
        id: row.id,
        title: `${row.message_type} ${row.id}`,
        detail: row.listener,
        state: row.state,
        at: row.received_at,
      }),
    ),
    deliveries: found.deliveries.map((row) =>
      hit({
        id: row.id,
        title: `${row.event} ${row.id}`,
        detail: row.destination,
        state: row.state,
        at: row.created_at,
      }),
    ),
    similar: found.similar,
  };
}
