// What an operator can do with one delivery.
import { api, attempt } from "../../data/api";
import { t } from "../../texts";
import { toast } from "../../ui/toasts.svelte";

export const maySkip = ({ state }: { state: string }): boolean =>
  ["queued", "parked"].includes(state);
export const mayRetry = ({ state }: { state: string }): boolean => state !== "claimed";

async function act(id: number, action: "retry" | "skip"): Promise<boolean> {
  const path = `/console/api/deliveries/${id}/${action}`;
  const done = await attempt(() => api.post(path).then(() => true));
  if (done) toast({ text: t(`delivery_list.${action}_done`, { id }), tone: "ok" });
  return done ?? false;
}
/** Sends a delivery now, or again; false: it was refused, and the person is notified. */
export const retry = (id: number): Promise<boolean> => act(id, "retry");
/** Skips a delivery; the later ones of its report continue. */
export const skip = (id: number): Promise<boolean> => act(id, "skip");
