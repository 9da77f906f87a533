// How the fields of a listener or destination are put together, and which belong to a transport.
import type { Transport } from "./table";

export type Kind = "listener" | "destination";

export interface Group {
  name: string;
  fields: string[];
  /** Whether it is open from the beginning. */
  open: boolean;
}

export const PLACE = { listener: "bind", destination: "address" } as const;

/** All but the name, the address, whether it is on, and TLS: these come first. */
export const GROUPS: Record<Kind, readonly Group[]> = {
  destination: [
    { name: "what", open: true, fields: ["mapping", "sites", "events", "time_zone", "fields"] },
    {
      name: "written",
      open: true,
      fields: [
        ...["version", "content", "layout", "sections", "addenda"],
        ...["orders", "interpreter", "times", "echo", "metadata"],
      ],
    },
    {
      name: "patience",
      open: false,
      fields: [
        ...["connect_timeout", "ack_timeout", "retry_first", "retry_max"],
        ...["breaker_after", "replies", "authorization_file", "answer_files"],
      ],
    },
  ],
  listener: [
    {
      name: "reads",
      open: true,
      fields: ["mappings", "site", "time_zone", "charset", "processing_ids"],
    },
    {
      name: "answers",
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

/** Whether a field means something for a transport. */
export const belongs = (field: string, transport: Transport): boolean =>
  (ONLY[field] ?? [transport]).includes(transport) &&
  (transport !== "folder" || !field.startsWith("tls."));

/** What may be chosen where a field would take any text. */
export const OFFERED: Record<string, readonly string[]> = {
  sections: ["none", "loinc", "dicom"],
  charset: ["utf-8", "iso-8859-1", "iso-8859-15", "cp1252"],
};
