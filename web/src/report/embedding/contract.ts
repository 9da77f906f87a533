// The page's side of the host interface: which part emits each event and handles each action.
//
// Events marked `feed` follow from commits on the server by any user; the live stream emits
// each of them once and in commit order (../live/hostEvents.ts). The rest of the page emits
// only those marked `page`. ../../host-sdk/protocol.ts defines their payloads.
import type { ActionName, EventName, ExtraName, HostStatus } from "../../host-sdk/protocol";

export type * from "../../host-sdk/protocol";

/** Who emits each event. `feed`: the live feed alone. `page`: the page's own part. */
export const EMITTERS: Readonly<Record<EventName, "feed" | "page">> = {
  report_ready: "page",
  report_signed: "feed",
  report_unsigned: "feed",
  report_status_changed: "feed",
  report_content_updated: "feed",
  report_saved: "page",
  report_finalized: "feed",
  report_discarded: "feed",
  addendum_created: "feed",
  addendum_cancelled: "feed",
  addendum_signed: "feed",
  addendum_unsigned: "feed",
  addendum_content_updated: "feed",
  addendum_finalized: "feed",
  recorder_on: "page",
  recorder_off: "page",
  microphone_devices: "page",
  billing_code_generated: "page",
  report_transfer_cancelled: "page",
  report_transfer_proceeded: "page",
  report_transferred: "feed",
};

/** Which part of the page handles each action: exactly one does. */
export const HANDLERS: Readonly<Record<ActionName, "editor" | "dictation" | "window">> = {
  sign_report: "editor",
  unsign_report: "editor",
  prelim_report: "editor",
  save_report: "editor",
  create_addendum: "editor",
  cancel_addendum: "editor",
  sign_addendum: "editor",
  unsign_addendum: "editor",
  toggle_recorder: "dictation",
  select_next_bracket: "editor",
  select_prev_bracket: "editor",
  apply_report_ai: "editor",
  get_microphone_devices: "dictation",
  change_microphone: "dictation",
  user_activity: "window",
};

/** Actions that change the report run one at a time, in order. */
export const SEQUENTIAL_ACTIONS: ReadonlySet<ActionName> = new Set([
  "sign_report",
  "unsign_report",
  "prelim_report",
  "save_report",
  "create_addendum",
  "cancel_addendum",
  "sign_addendum",
  "unsign_addendum",
]);

const EXTRAS: Readonly<Record<ExtraName, true>> = {
  report_transfer_requested: true,
  action_failed: true,
  session_expired: true,
  sync_refused: true,
};

/** The actions, and the events that the report service interface does not contain. */
export const CAPABILITIES: readonly string[] = [HANDLERS, EXTRAS].flatMap(Object.keys);

const REQUIRED: Partial<Record<ActionName, readonly string[]>> = {
  prelim_report: ["prelimGroup", "prelimTag"],
  change_microphone: ["deviceId"],
};

export function isAction(name: unknown): name is ActionName {
  return typeof name === "string" && Object.hasOwn(HANDLERS, name);
}

/** Returns the name of the first required parameter that is missing, or "". */
export function missingParameter(action: ActionName, message: Record<string, unknown>): string {
  const present = (name: string) => typeof message[name] === "string" && message[name] !== "";
  return (REQUIRED[action] ?? []).find((name) => !present(name)) ?? "";
}

/** Writes a status of the API ("Final") as events do ("FINAL"). */
export function hostStatus(status: string | null | undefined): HostStatus | null {
  return status ? (status.toUpperCase() as HostStatus) : null;
}
