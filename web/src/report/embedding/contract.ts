// The interface document's chapters Events and Actions as types, to the letter.
//
// Who emits: events marked `feed` follow from what the server committed, whoever did it; the live
// feed emits each of them once and in the order of the commits (see ../live/feed.ts). The editor
// emits only those marked `page`. Decides nothing and sends nothing.

/** Where a report stands, as events say it. */
export type HostStatus = "ORDERED" | "DRAFT" | "PRELIMINARY" | "FINAL" | "ADDENDUM";

export interface OrderIdentity {
  SiteID: string;
  PatientMRN: string;
  Accession: string;
}

export interface MicrophoneDevice {
  deviceId: string;
  label: string;
  isActive: boolean;
}

export interface BillingCode {
  Code: string;
  Description: string;
}

type Nothing = Record<string, never>;

/** The payload of each event, beside what every event carries (`Envelope`). */
export interface EventPayloads {
  report_ready: { status: HostStatus | null };
  report_signed: { signedAt: string; content: string; html_content: string };
  report_unsigned: Nothing;
  report_status_changed: { status: HostStatus };
  report_content_updated: { content: string };
  report_saved: Nothing;
  report_finalized: Nothing;
  report_discarded: Nothing;
  addendum_created: Nothing;
  addendum_cancelled: Nothing;
  addendum_signed: { signedAt: string; content: string; html_content: string };
  addendum_unsigned: Nothing;
  addendum_content_updated: { content: string };
  addendum_finalized: Nothing;
  recorder_on: Nothing;
  recorder_off: Nothing;
  microphone_devices: { devices: MicrophoneDevice[] };
  billing_code_generated: { billingCode: { cpt: BillingCode | null; icd10: BillingCode[] } };
  report_transfer_cancelled: Nothing;
  report_transfer_proceeded: Nothing;
  report_transferred: { newOwnerName: string };
}

export type EventName = keyof EventPayloads;

/** What we send beyond the document: a host that does not know them ignores them. */
export interface ExtraPayloads {
  /** An action that was understood and could not be carried out. */
  action_failed: { action: string; code: string; message: string };
  /** The session has ended: the report is to be opened again by a new link. */
  session_expired: { reason: "inactivity" | "ended" };
  /** A persistent window stays where it is although another study was launched. */
  sync_refused: { reason: string };
}

export type ExtraName = keyof ExtraPayloads;

/** The members of every event (the first three are the document's). */
export interface Envelope {
  type: EventName | ExtraName;
  reportId: string;
  clinicalInfo: OrderIdentity;
  linkedClinicalInfo: OrderIdentity[];
  messageId: string;
  timestamp: string;
  protocolVersion: 1;
}

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

/** The parameters of each action. */
export interface ActionParameters {
  sign_report: Nothing;
  unsign_report: Nothing;
  prelim_report: { prelimGroup: string; prelimTag: string };
  save_report: Nothing;
  create_addendum: Nothing;
  cancel_addendum: Nothing;
  sign_addendum: Nothing;
  unsign_addendum: Nothing;
  toggle_recorder: Nothing;
  select_next_bracket: Nothing;
  select_prev_bracket: Nothing;
  apply_report_ai: Nothing;
  get_microphone_devices: Nothing;
  change_microphone: { deviceId: string };
  user_activity: Nothing;
}

export type ActionName = keyof ActionParameters;

/** Which part of the page handles each action: exactly one does. */
export const HANDLERS: Readonly<Record<ActionName, "editor" | "dictation" | "ai" | "window">> = {
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
  apply_report_ai: "ai",
  get_microphone_devices: "dictation",
  change_microphone: "dictation",
  user_activity: "window",
};

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
