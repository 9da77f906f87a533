// Responses of the endpoints under /console/api/connections.
import type { FieldSpec, Table } from "./settingsTable";

/** One version that was active. */
export interface Activation {
  version: string;
  at: number;
  actor: string;
  origin: string;
  reason: string;
}

export interface Form {
  listener: FieldSpec[];
  destination: FieldSpec[];
  "dicom-peer": FieldSpec[];
  /** The kind of each definition: orders, patients, outside-reports, worklist or results. */
  definitions: Record<string, string>;
}

export interface Connection {
  name: string;
  /** The active settings; null if the connection was removed. */
  table: Table | null;
  in_force: Activation | null;
  in_file: boolean;
  history: Activation[];
}

export interface SettingError {
  /** Empty if the error is about the whole table. */
  field: string;
  text: string;
}

export interface SettingsCheck {
  mistakes: SettingError[];
  warnings: { code: string; at: number }[];
}
