// The status of an order's report.
import type { OrderRow } from "../../data/api-types";

/** The status in lower case: a report that nobody has opened yet is ordered. */
export const reportStatus = ({ report }: OrderRow): string =>
  (report?.status || "Ordered").toLowerCase();
