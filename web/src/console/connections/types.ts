// What the endpoints under /console/api/connections answer.
import type { Activation } from "../mappings/types";
import type { FieldSpec, Table } from "./table";

export interface Form {
  listener: FieldSpec[];
  destination: FieldSpec[];
  /** What each definition maps: orders, patients or results. */
  definitions: Record<string, string>;
}

export interface Connection {
  name: string;
  /** As in force; null: it is gone. */
  table: Table | null;
  in_force: Activation | null;
  in_file: boolean;
  history: Activation[];
}

export interface Mistake {
  /** Empty: it is about the whole. */
  field: string;
  text: string;
}

export interface Verdict {
  mistakes: Mistake[];
  warnings: { code: string; at: number }[];
}
