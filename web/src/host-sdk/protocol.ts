// The messages between the reporting app and its host: the chapters Events and Actions of the
// report service interface as types. It contains types only, so a host's project can copy it.

/** The status of a report in events. */
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

/** The payload of each event, in addition to the members of every event (`Envelope`). */
export interface EventPayloads {
  report_ready: {
    status: HostStatus | null;
    /** Not in the report service interface: the actions and additional events of this app. */
    capabilities: readonly string[];
  };
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

/** Events that are not in the report service interface; a host may ignore them. */
export interface ExtraPayloads {
  /** An action that failed: `message` is a text for people in the page's language. */
  action_failed: { action: string; code: string; message: string; parameter?: string };
  /** The ownership prompt is open: the user must answer it before the report is shown. */
  report_transfer_requested: { ownerName: string };
  /** The session has ended: open the report again with a new link. */
  session_expired: { reason: "inactivity" | "ended" };
  /** A persistent window did not follow the launch of another study. */
  sync_refused: { reason: string };
}

export type ExtraName = keyof ExtraPayloads;

/** The members of every event (the report service interface defines the first three). */
export interface Envelope {
  type: EventName | ExtraName;
  reportId: string;
  clinicalInfo: OrderIdentity;
  linkedClinicalInfo: OrderIdentity[];
  messageId: string;
  timestamp: string;
  protocolVersion: 1;
}

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
