// The groups of settings in the connection form, and the transports that each setting applies to.
import type { FieldSpec, Transport } from "./settingsTable";

export type Kind = "listener" | "destination" | "dicom-peer";

export interface Group {
  name: string;
  fields: string[];
  /** Whether the group is initially open. */
  open: boolean;
}

/** The setting with the address; a DICOM peer opens the associations and has none. */
export const PLACE = { listener: "bind", destination: "address", "dicom-peer": "" } as const;
/** The setting that names the connection. */
export const NAME = { listener: "name", destination: "name", "dicom-peer": "ae_title" } as const;
/** The settings that the form shows first, beside the address. */
export const FIRST: Record<Kind, readonly string[]> = {
  listener: ["enabled"],
  destination: ["enabled"],
  "dicom-peer": ["addresses", "enabled"],
};

/** The other settings, except TLS. */
export const GROUPS: Record<Kind, readonly Group[]> = {
  "dicom-peer": [
    {
      name: "rights",
      open: true,
      fields: ["may", "sites", "modalities", "stations", "locations"],
    },
    {
      name: "answers",
      open: false,
      fields: ["charset", "max_answers", "on_limit", "token_file"],
    },
  ],
  destination: [
    { name: "content", open: true, fields: ["mapping", "sites", "events", "time_zone", "fields"] },
    {
      name: "format",
      open: true,
      fields: [
        ...["version", "content", "layout", "sections", "addenda"],
        ...["orders", "interpreter", "times", "echo", "metadata"],
      ],
    },
    {
      name: "pacs",
      open: true,
      fields: [
        ...["forms", "calling_ae_title", "commitment", "commitment_within", "charset"],
        ...["language", "organization", "series_description", "series_number"],
      ].map((name) => `dicom.${name}`),
    },
    {
      name: "timeouts",
      open: false,
      fields: [
        ...["connect_timeout", "ack_timeout", "retry_first", "retry_max"],
        ...["breaker_after", "replies", "authorization_file", "answer_files"],
      ],
    },
  ],
  listener: [
    {
      name: "processing",
      open: true,
      fields: ["mappings", "site", "time_zone", "charset", "processing_ids"],
    },
    {
      name: "acknowledgments",
      open: true,
      fields: [
        ...["acknowledge", "replies", "reused_control_id", "merged_patients"],
        ...["patient_conflict", "sequence_numbers", "validate", "profile"],
      ],
    },
    {
      name: "limits",
      open: false,
      fields: [
        ...["allow", "max_connections", "max_connections_per_source"],
        ...["max_frame", "frame_timeout", "idle_timeout", "alert_after"],
        ...["share_port", "commit_blocks", "authorization_file", "scan_every", "answer_files"],
      ],
    },
  ],
};

const SOCKETS: readonly Transport[] = ["mllp", "web"];
const HL7: readonly Transport[] = ["mllp", "web", "folder"];
const PACS: readonly Transport[] = ["dicom", "dicomweb"];

/** How connections of a kind can be reached. */
export const TRANSPORTS: Record<Kind, readonly Transport[]> = {
  listener: HL7,
  destination: [...HL7, ...PACS],
  "dicom-peer": [],
};

const ONLY: Record<string, readonly Transport[]> = {
  ...Object.fromEntries(
    [
      ...["version", "content", "layout", "addenda", "orders", "interpreter", "times", "echo"],
      ...["metadata", "fields"],
    ].map((name) => [name, HL7]),
  ),
  "dicom.calling_ae_title": ["dicom"],
  "dicom.commitment": ["dicom"],
  "dicom.commitment_within": ["dicom"],
  authorization_file: ["web", "dicomweb"],
  answer_files: ["folder"],
  scan_every: ["folder"],
  allow: SOCKETS,
  max_connections: SOCKETS,
  max_connections_per_source: SOCKETS,
  frame_timeout: SOCKETS,
  idle_timeout: SOCKETS,
  share_port: SOCKETS,
  commit_blocks: ["mllp"],
};

/** Whether a setting applies to a transport. */
export const appliesTo = (field: string, transport: Transport): boolean =>
  (ONLY[field] ?? (field.startsWith("dicom.") ? PACS : [transport])).includes(transport) &&
  (transport !== "folder" || !field.startsWith("tls."));

const PACS_EVENTS = ["final", "addendum"];
/** A field with the choices that a transport permits: a PACS gets signed reports only. */
export const fitted = (field: FieldSpec, transport: Transport): FieldSpec =>
  field.name === "events" && PACS.includes(transport)
    ? { ...field, choices: field.choices.filter((one) => PACS_EVENTS.includes(one)) }
    : field;

/** Suggested values of fields that take any text. */
export const SUGGESTIONS: Record<string, readonly string[]> = {
  sections: ["none", "loinc", "dicom"],
  "dicom-peer_charset": ["ISO_IR 192", "ISO_IR 100", "ISO 2022 IR 6\\ISO 2022 IR 87"],
  charset: ["utf-8", "iso-8859-1", "iso-8859-15", "cp1252"],
};
