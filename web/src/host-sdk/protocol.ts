// What the reporting app and its host say to each other: the interface document's chapters Events
// and Actions as types, to the letter. Types only; a host's project can take this file as it is.

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

/** The payload of each event, beside what every event carries (`Envelope`). */
export interface EventPayloads {
  report_ready: {
    status: HostStatus | null;
    /** Ours: the actions that there are, and the events beyond the document. */
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

/** The members of every event (the interface document defines the first three). */
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
