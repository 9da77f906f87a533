// What an operator can do with one message.
import { api, attempt } from "../../data/api";
import { t } from "../../texts";
import { toast } from "../../ui/toasts.svelte";

const path = (id: number, action: string) => `/console/api/messages/${id}/${action}`;

export const mayReplay = ({ state }: { state: string }): boolean =>
  !["queued", "claimed"].includes(state);
export const mayCancel = ({ state }: { state: string }): boolean =>
  ["queued", "parked"].includes(state);

/** Queues a message again; false: it was refused, and the person is notified. */
export async function replay(id: number): Promise<boolean> {
  const done = await attempt(() => api.post<{ later: number }>(path(id, "replay")));
  if (!done) return false;
  const text = done.later
    ? t("message_list.replayed_later", { id, count: done.later })
    : t("message_list.replayed", { id });
  toast({ text, tone: done.later ? "amber" : "ok" });
  return true;
}
/** Cancels a message, which is never applied then. */
export async function cancel(id: number): Promise<boolean> {
  const done = await attempt(() => api.post(path(id, "cancel")).then(() => true));
  if (done) toast({ text: t("message_list.cancelled", { id }), tone: "ok" });
  return done ?? false;
}
