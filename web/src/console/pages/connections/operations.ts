// What an operator does with a connection: pause, resume; and the menu of its row.
import type { ChannelKind } from "../../data/api-types";
import { api, attempt } from "../../data/api";
import { may } from "../../data/me.svelte";
import { go } from "../../frame/go";
import { href } from "../../frame/route.svelte";
import { t } from "../../texts";
import { confirm } from "../../ui/confirm.svelte";
import type { MenuItem } from "../../ui/menu";
import { toast } from "../../ui/toasts.svelte";
import { connectionTarget } from "./channels";

export interface Operated {
  kind: ChannelKind;
  name: string;
  shared: boolean;
  enabled: boolean;
  isPaused: boolean;
}

export const channelPath = (kind: string, name: string): string =>
  `/console/api/channels/${kind}/${encodeURIComponent(name)}`;

/** Pauses after a question; the toast takes it back. Returns true if it is paused. */
export async function pause({ kind, name }: Operated, changed: () => unknown): Promise<boolean> {
  const answer = await confirm({
    title: t("channel.pause_title", { name }),
    lead: t(`channel.pause_lead_${kind}`, { name }),
    verb: t("channel.pause_verb", { name }),
  });
  if (!answer || !(await post(kind, name, "pause"))) return false;
  const undo = { label: t("channel.resume"), run: () => resume({ kind, name }, changed) };
  toast({ text: t("channel.paused", { name }), tone: "ok", action: undo });
  await changed();
  return true;
}

export async function resume(
  { kind, name }: Pick<Operated, "kind" | "name">,
  changed: () => unknown,
): Promise<void> {
  if (!(await post(kind, name, "resume"))) return;
  toast({ text: t("channel.resumed", { name }), tone: "ok" });
  await changed();
}

const post = (kind: string, name: string, what: string) =>
  attempt(() => api.post(`${channelPath(kind, name)}/${what}`).then(() => true));

/** The page that examines the partner of a connection. */
export const examineAddress = (kind: ChannelKind, name: string): string =>
  href(
    "examine",
    {},
    new URLSearchParams({ ...(kind === "listener" && { role: "sender" }), [kind]: name }),
  );

/** The menu of a row: what may not be done says why. */
export function menuOf(
  channel: Operated,
  run: { test: () => unknown; changed: () => unknown },
): MenuItem[] {
  const { kind, name, shared, enabled, isPaused } = channel;
  const why = shared ? t("channel.shared") : enabled ? undefined : t("channel.is_off");
  const operate: MenuItem[] = may("operate")
    ? [
        { id: "test", title: t("channel.test"), unavailable: why, run: run.test },
        isPaused
          ? {
              id: "resume",
              title: t("channel.resume"),
              icon: "play",
              unavailable: why,
              run: () => resume(channel, run.changed),
            }
          : {
              id: "pause",
              title: t("channel.pause"),
              icon: "pause",
              unavailable: why,
              run: () => pause(channel, run.changed),
            },
      ]
    : [];
  const settings: MenuItem[] = may("connect")
    ? [
        {
          id: "examine",
          title: t("channel.examine"),
          icon: "examine",
          run: () => go(examineAddress(kind, name)),
        },
        {
          id: "settings",
          title: t("channel.settings"),
          icon: "settings",
          run: () => go(connectionTarget(kind, name, "settings").href),
        },
      ]
    : [];
  return [
    {
      id: "open",
      title: t("channel.open"),
      icon: "open",
      run: () => go(connectionTarget(kind, name).href),
    },
    ...operate,
    ...settings,
    {
      id: "specification",
      title: t("channel.tab_specification"),
      icon: "file",
      run: () => go(connectionTarget(kind, name, "specification").href),
    },
  ];
}
