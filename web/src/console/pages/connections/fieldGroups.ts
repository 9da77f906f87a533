// The groups of settings in the connection form, and the transports that each setting applies to.
import type { Transport } from "./settingsTable";

export type Kind = "listener" | "destination";

export interface Group {
  name: string;
  fields: string[];
  /** Whether the group is initially open. */
  open: boolean;
}

export const PLACE = { listener: "bind", destination: "address" } as const;

/** All settings except the name, the address, `enabled` and TLS, which the form shows first. */
export const GROUPS: Record<Kind, readonly Group[]> = {
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

const ONLY: Record<string, readonly Transport[]> = {
  authorization_file: ["web"],
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
  (ONLY[field] ?? [transport]).includes(transport) &&
  (transport !== "folder" || !field.startsWith("tls."));

/** Suggested values of fields that take any text. */
export const SUGGESTIONS: Record<string, readonly string[]> = {
  sections: ["none", "loinc", "dicom"],
  charset: ["utf-8", "iso-8859-1", "iso-8859-15", "cp1252"],
};
