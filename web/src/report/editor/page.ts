// The responses of the session endpoints: the state of the report page (bridge/engine/service) and
// its related data.
import type { Theme } from "../../shared/theme/theme";
import type { OrderIdentity } from "../embedding/contract";
import type { Macro } from "./text/macros";
import type { ReportDocument } from "./text/document";

export type Status = "Ordered" | "Draft" | "Preliminary" | "Final" | "Addendum";

export type Control =
  | "edit"
  | "sign"
  | "sign-now"
  | "unsign"
  | "prelim"
  | "discard"
  | "addendum-create"
  | "addendum-unsign"
  | "addendum-sign-now";

export interface Person {
  name: string;
  email: string;
  signature: string | null;
}

/** clinicalInfo tags of one order; the anchor comes first. */
export type Order = Readonly<Record<string, string>>;

export interface AddendumState {
  number: number;
  state: "draft" | "signed";
  version: number;
  document: ReportDocument;
  content: string;
  html: string | null;
  signedAt: number | null;
  signedBy: Person | null;
  unsignUntil: number | null;
  released: boolean;
}

export type PatientTag = "PatientMRN" | "PatientName" | "PatientBirthDate";

export interface Page {
  reportId: string;
  status: Status;
  /** Every order of the report, the anchor first. */
  clinicalInfo: OrderIdentity[];
  version: number;
  document: ReportDocument;
  content: string;
  html: string | null;
  template: number | null;
  can: Control[];
  orders: Order[];
  /** The most urgent priority of the orders (HL7 table 0485), null if none has one. */
  priority: string | null;
  addenda: AddendumState[];
  signedAt: number | null;
  signedBy: Person | null;
  unsignUntil: number | null;
  addendumUnsignUntil: number | null;
  /** Files of another patient; without tags the second content of one file. */
  setAside: { title: string; contradicts: PatientTag[] }[];
  /** Files of this patient with another value than the order. */
  overridden: { title: string; overridden: PatientTag[] }[];
  /** The orders that another system has reported. */
  reportedElsewhere: { accession: string; at: number; sender: string; status: string }[];
  recalled: { document: ReportDocument; at: number } | null;
  owner: boolean;
  ownerName: string;
  writable: boolean;
  writer: { name: string; own: boolean } | null;
  autoCompare: boolean;
  /** Whether signing by the keyboard asks first: the site has no sign delay. */
  confirmSigning: boolean;
  journalKey: string;
  /** The time of the service, milliseconds since the epoch. */
  now: number;
}

/** The display preferences of the user. */
export interface Choices {
  AppLanguage?: string;
  theme?: Theme;
  AutoComparePrior?: boolean;
}

export interface Presence {
  version: number;
  status: Status;
  writable: boolean;
  writer: Page["writer"];
  now: number;
}

/** The position of a check finding in the document. */
export interface Place {
  block: number;
  item: number | null;
  start: number;
  end: number;
}

/** A finding to check before signing: the service gives a position, the page a range of the text. */
export type Finding = {
  check: string;
  behaviour: "alert" | "prohibit";
  words: string;
} & (Place | { range: { from: number; to: number } });

/** What the sender of a report says about a version of it. */
export type OutsideStatus =
  "unknown" | "preliminary" | "final" | "addendum" | "corrected" | "withdrawn";

/** A version of a report that was not made here. */
export interface OutsideVersion {
  version: number;
  status: OutsideStatus;
  at: number;
  author: string;
  /** The number of its PDF files. */
  pdfs: number;
  omitted: string[];
  document: ReportDocument;
}

export interface PriorSummary {
  reportId: string;
  status: Status | "";
  accessions: string[];
  signedAt: number | null;
  signedBy: string;
  date: string;
  compare: boolean;
  /** Of a report that was not made here. */
  outside: { sender: string; status: OutsideStatus; versions: number; withdrawn: boolean } | null;
  Modality: string;
  BodyPartExamined: string;
  StudyDescription: string;
  StudyDate: string;
}

export interface Prior extends PriorSummary {
  document: ReportDocument;
  addenda: { document: ReportDocument; signedAt: number }[];
  /** Of an outside report: how many of the newest versions only add to the next one. */
  added?: number;
  /** All versions of a report that was not made here, the newest first. */
  versions?: OutsideVersion[];
}

export interface PrelimRead {
  group: string;
  tag: string;
  at: number;
  by: string;
  reviewedAt: number | null;
  reviewedBy: string;
  withdrawn: boolean;
  document: ReportDocument;
}

export interface Signing {
  at: number;
  by: string;
  withdrawn: boolean;
  document: ReportDocument;
}

export interface History {
  prelims: PrelimRead[];
  signings: Signing[];
}

export interface Measurement {
  name: string;
  value: string;
  unit: string;
  path: string[];
  qualifiers: [string, string][];
  /** What was measured, such as "Lesion 1". */
  tracking?: string;
}

export type ReportFile =
  | { id: number; kind: "setAside"; title: string; contradicts: string[] }
  | { id: number; kind: "dicomSR"; title: string; text: string; measurements: Measurement[] }
  | {
      id: number;
      kind: "keyImage";
      name: string;
      mediaType: string;
      width: number;
      height: number;
    };

export interface Template {
  number: number;
  name: string;
  document: ReportDocument;
}

export interface Code {
  Code: string;
  Description: string;
}

export interface BillingCodes {
  cpt: Code | null;
  icd10: Code[];
}

export interface Share {
  id: number;
  createdAt: number;
  expiresAt: number | null;
}

export type ExportKind = "pdf" | "docx" | "rtf" | "html";

export type { Macro };
