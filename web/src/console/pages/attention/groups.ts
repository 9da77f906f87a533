// What a person can do about a cause: where its rows are, where it is removed, and its bulk actions.
import { api, attempt } from "../../data/api";
import type { Group } from "../../data/api-types";
import { toQuery, type FilterField } from "../../data/filter";
import { jobs, type JobRequest } from "../../data/jobs.svelte";
import { may } from "../../data/me.svelte";
import { href } from "../../frame/routes";
import { t } from "../../texts";
import { confirm } from "../../ui/confirm.svelte";
import type { MenuItem } from "../../ui/menu";
import { toast } from "../../ui/toasts.svelte";

/** Above this number of rows, a person types the number before a bulk action. */
const MANY = 100;

/** The address of the list with the rows of a group; null: the page of needs attention has them. */
export function rowsOf(group: Group): string | null {
  if (group.list !== "messages" && group.list !== "deliveries") return null;
  const fields = Object.keys(group.filters).map((name): FilterField => ({
    name,
    title: name,
    type: "text",
  }));
  return href(group.list, {}, toQuery(group.filters, fields));
}

/** Where the proposed action is done; null: it is done here. */
function placeOf(group: Group): string | null {
  switch (group.action) {
    case "add site":
      return may("administer") ? href("sites") : null;
    case "add codes":
      return may("author") ? href("mappings", {}, new URLSearchParams({ list: "codes" })) : null;
    case "edit definition":
      return may("author") ? href("mappings") : null;
    case "check peers":
      return href("connections", {}, new URLSearchParams({ show: "dicom-peer" }));
    case "check connection":
      return group.kind ? href("connection", { kind: group.kind, name: group.channel }) : null;
    default:
      return null;
  }
}

async function bulk(kind: JobRequest["kind"], group: Group, verb: string): Promise<void> {
  const typed = group.count > MANY ? group.count : undefined;
  const lead = `${group.words}. ${t("attention.bulk_lead")}`;
  const answer = await confirm({ title: verb, lead, verb, reason: true, typed });
  if (!answer) return;
  const selection = { list: group.list, filters: group.filters, except_ids: [] };
  await jobs.start({ kind, selection, reason: answer.reason });
}

async function review(group: Group, changed: () => unknown): Promise<void> {
  const verb = t("attention.reviewed", { count: group.count });
  const lead = `${group.words}. ${t("attention.reviewed_lead")}`;
  const answer = await confirm({ title: verb, lead, verb, reason: true });
  if (!answer) return;
  const [subject] = group.filters["subject"] ?? [];
  const body = { subject, code: group.code, reason: answer.reason };
  const done = await attempt(() =>
    api.post<{ count: number }>("/console/api/attention/seen", body),
  );
  if (!done) return;
  toast({ text: t("attention.done", { count: done.count }), tone: "ok" });
  await changed();
}

interface GroupAction {
  id: string;
  title: string;
  run: () => Promise<void>;
}

function actionsOf(group: Group, changed: () => unknown): GroupAction[] {
  if (!may("operate") || group.subject === "conditions") return [];
  const offer = (kind: JobRequest["kind"], key: string): GroupAction => {
    const title = t(`attention.${key}`, { count: group.count });
    return { id: kind, title, run: () => bulk(kind, group, title) };
  };
  if (group.list === "messages")
    return [offer("replay", "replay_all"), offer("cancel", "cancel_all")];
  if (group.list === "deliveries") return [offer("retry", "retry_all"), offer("skip", "skip_all")];
  if (group.list !== "attention") return [];
  const title = t("attention.reviewed", { count: group.count });
  return [{ id: "review", title, run: () => review(group, changed) }];
}

/** The button of a group: the place of the proposed action, else that action, else its first one. */
export function mainOf(
  group: Group,
  changed: () => unknown,
): { title: string; href?: string; run?: () => Promise<void> } | null {
  const place = placeOf(group);
  if (place) return { title: t(`attention.action.${group.action}`), href: place };
  const known = actionsOf(group, changed);
  const proposed = known.find((action) => action.id === group.action) ?? known[0];
  return proposed ? { title: proposed.title, run: proposed.run } : null;
}

export function moreOf(group: Group, changed: () => unknown): MenuItem[] {
  const main = mainOf(group, changed);
  return actionsOf(group, changed).filter((action) => action.title !== main?.title);
}
