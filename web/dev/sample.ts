// Made-up rows for the component page.
import type { ListPage, MessageRow, BackgroundJob } from "../src/console/data/api-types";
import type { Question } from "../src/console/data/list.svelte";

export const NOW = Date.now();
const STATES = ["done", "done", "done", "retrying", "parked", "refused", "queued", "ignored"];
const NAMES = ["Müller, Jürgen", "Rossi, Anna", "Nováková, Zoë", "Smith, John", "Şimşek, Ela"];
const CAUSES: Readonly<Record<string, string>> = {
  parked: "Site NORTH2 does not exist",
  refused: "AE 101: PID-3.1 is empty; ris-a needs PatientMRN",
  retrying: "The report engine is not responding",
};
export interface SampleRow extends MessageRow {
  patient: string;
  accession: string;
  control: string;
}

export function sampleRow(id: number): SampleRow {
  const state = STATES[id % STATES.length] ?? "done";
  return {
    id,
    received_at: NOW - (90_000 - id) * 37_000,
    listener: ["ris-a", "his-b", "ris-c"][id % 3] ?? "ris-a",
    message_type: ["ORM^O01", "ADT^A08", "OMI^O23"][id % 3] ?? "ORM^O01",
    state,
    ack_code: "AA",
    cause: state,
    cause_text: CAUSES[state] ?? "",
    action: "",
    attempts: (id % 5) + 1,
    retransmits: 0,
    flags: 0,
    mapping: "ris-a",
    mapping_version: "3f9a21c4",
    settled_at: null,
    not_before: 0,
    patient: NAMES[id % NAMES.length] ?? "",
    accession: `ACC${7000 + (id % 997)}`,
    control: `A${String(id).padStart(6, "0")}`,
  };
}

/** A server with 10,000 messages. */
export async function readSample({ before, limit }: Question): Promise<ListPage<SampleRow>> {
  await new Promise((resolve) => setTimeout(resolve, 120));
  const from = before ?? 90_000;
  const rows = Array.from({ length: limit }, (_, index) => sampleRow(from - index));
  const next = from - limit;
  return { rows, next: next > 80_000 ? next : null, sortable: false };
}

export const JOB: BackgroundJob = {
  id: 1,
  kind: "replay",
  title: "Replay 3,000 messages",
  actor: "Ola N.",
  reason: "the site was added",
  state: "running",
  list: "messages",
  format: "",
  expected: 3000,
  exact: true,
  handled: 1240,
  succeeded: 1236,
  failed: 4,
  created_at: NOW - 60_000,
  finished_at: null,
  result: {},
};
