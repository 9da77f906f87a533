// The views of the worklist with their filters and sort orders.
import type { Query, ReportStatus } from "./rows";

export interface View {
  name: "to_read" | "drafts" | "prelims" | "signed" | "all";
  status: readonly ReportStatus[];
  owner: Query["owner"];
  sort: string;
  descending: boolean;
}

export const VIEWS: readonly View[] = [
  { name: "to_read", status: ["Ordered"], owner: "", sort: "priority", descending: false },
  {
    name: "drafts",
    status: ["Draft", "Preliminary"],
    owner: "me",
    sort: "updated",
    descending: true,
  },
  { name: "prelims", status: ["Preliminary"], owner: "", sort: "waiting", descending: false },
  { name: "signed", status: ["Final", "Addendum"], owner: "", sort: "updated", descending: true },
  { name: "all", status: [], owner: "", sort: "updated", descending: true },
];

export const STATUSES: readonly ReportStatus[] = [
  "Ordered",
  "Draft",
  "Preliminary",
  "Final",
  "Addendum",
];

/** HL7 table 0485, the most urgent first. */
export const PRIORITIES = ["S", "A", "T", "C", "P", "R", "PRN"] as const;

/** The modalities of radiology (DICOM CID 29) that the filter offers. */
export const MODALITIES = [
  ...["CR", "CT", "DX", "IO", "MG", "MR", "NM", "OT", "PT", "PX", "RF", "US", "XA"],
] as const;

export interface Column {
  name: string;
  /** The sort key of this column; empty if it is not sortable. */
  sort: string;
  /** The minimum width of the list, in px, that shows this column. */
  from: number;
}

export const COLUMNS: readonly Column[] = [
  { name: "urgency", sort: "priority", from: 0 },
  { name: "status", sort: "status", from: 0 },
  { name: "patient", sort: "patient", from: 0 },
  { name: "mrn", sort: "mrn", from: 900 },
  { name: "study", sort: "study", from: 0 },
  { name: "accession", sort: "accession", from: 640 },
  { name: "waiting", sort: "created", from: 560 },
  { name: "studyDate", sort: "studyDate", from: 760 },
  { name: "location", sort: "location", from: 1150 },
  { name: "owner", sort: "owner", from: 820 },
  { name: "updated", sort: "updated", from: 700 },
];
