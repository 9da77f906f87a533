// The worklist that a report was opened from. It is kept in the tab, so that the report links back
// to its row and to the next report.
import type { Api } from "../../shared/api/client";
import { addressOf, type Query, type Row, type Stretch } from "./rows";

/** A row of the list: its report and its index. */
export interface Place {
  reportId: string;
  index: number;
}

export interface ReadingList extends Place {
  /** The next reports in the list, nearest first. */
  following: string[];
  query: Query;
  /** The state of the worklist page, as in its history entry. */
  view: unknown;
  /** Whether the worklist continues at this row. */
  returning: boolean;
}

const KEY = "report.reading";
const AROUND = 50;

/** A frame may have no storage; then there is no link back. */
function storage(): Storage | null {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}

export function keepReadingList(list: ReadingList): void {
  storage()?.setItem(KEY, JSON.stringify(list));
}

/** Returns the list that a report was opened from; null if it was opened otherwise. */
export function readingListOf(reportId: string): ReadingList | null {
  const list = read();
  return list?.reportId === reportId ? list : null;
}

/** Returns the list as the user left it, and removes it. */
export function takeReturning(): ReadingList | null {
  const list = read();
  if (!list?.returning) return null;
  keepReadingList({ ...list, returning: false });
  return list;
}

function read(): ReadingList | null {
  try {
    return JSON.parse(storage()?.getItem(KEY) ?? "null") as ReadingList | null;
  } catch {
    return null;
  }
}

export const reportAddress = (reportId: string): string =>
  `/reporting/report/${encodeURIComponent(reportId)}`;

/** Returns the list at its next report, with current data; null at its end. */
export async function nextOf(
  api: Api,
  base: string,
  list: ReadingList,
): Promise<ReadingList | null> {
  const offset = Math.max(0, list.index - AROUND);
  const { items } = await api.get<Stretch>(addressOf(base, list.query, offset, 2 * AROUND));
  const at = indexOfNext(items, list, offset);
  const row = items[at];
  if (!row) return null;
  const following = items.slice(at + 1, at + 1 + AROUND).map((item) => item.reportId);
  return { ...list, reportId: row.reportId, index: offset + at, following };
}

/** If a signed report is no longer in the list, the first of the reports after it is next. */
function indexOfNext(rows: readonly Row[], list: ReadingList, offset: number): number {
  const places = new Map(rows.map((row, index) => [row.reportId, index]));
  const here = places.get(list.reportId);
  for (const id of list.following) {
    const found = places.get(id);
    if (found !== undefined) return found;
  }
  return here === undefined ? list.index - offset : here + 1;
}
