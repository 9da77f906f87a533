// Actions on many rows: asked for with their number and a reason, and run as background jobs.
import { jobs, type JobRequest } from "../../data/jobs.svelte";
import type { ListSource } from "../../data/list.svelte";
import { may } from "../../data/me.svelte";
import { t } from "../../texts";
import { confirm } from "../../ui/confirm.svelte";
import { countText } from "../../ui/number";
import type { SelectionRequest } from "../../ui/table/selection.svelte";

export type BulkKind = "replay" | "cancel" | "retry" | "skip" | "acknowledge";
export type ExportFormat = "raw" | "csv" | "deidentified";

/** From this number on it must be typed. */
const TYPED_FROM = 101;
const DANGEROUS: readonly BulkKind[] = ["cancel", "skip"];

interface Chosen {
  selection: SelectionRequest;
  count: number;
  /** "214", or "10,000+". */
  number: string;
}
/** The selected rows; without a selection all that match. */
function chosenOf<Row>(list: ListSource<Row>, name: string): Chosen {
  const matching = list.known ?? { count: list.rows.length, exact: list.end };
  if (list.selection.isEmpty)
    return {
      selection: { list: name, filters: list.asked, except_ids: [] },
      count: matching.count,
      number: countText(matching),
    };
  const count = list.selection.count(matching.count);
  const exact = !list.selection.all || matching.exact;
  return { selection: list.selection.request(name), count, number: countText({ count, exact }) };
}

/** Asks, and starts the action for the selected rows. */
export async function start<Row>(
  kind: BulkKind,
  list: ListSource<Row>,
  name: string,
): Promise<void> {
  const { selection, count, number } = chosenOf(list, name);
  const answer = await confirm({
    title: t(`bulk.${kind}_title`, { count, number }),
    lead: t(`bulk.${kind}_lead`),
    verb: t(`bulk.${kind}_title`, { count, number }),
    tone: DANGEROUS.includes(kind) ? "danger" : "main",
    reason: true,
    typed: count >= TYPED_FROM ? count : undefined,
  });
  if (!answer) return;
  if (await jobs.start({ kind, selection, reason: answer.reason })) list.selection.clear();
}

/** Asks for the reason, and starts an export; `columns` are those of the table. */
export async function exportRows<Row>(
  format: ExportFormat,
  list: ListSource<Row>,
  name: string,
  columns: readonly string[],
): Promise<void> {
  const { selection, count, number } = chosenOf(list, name);
  const answer = await confirm({
    title: t("bulk.export_title", { count, number }),
    lead: t(`bulk.export_${format}_lead`),
    verb: t("bulk.export_title", { count, number }),
    reason: true,
  });
  if (!answer) return;
  const options = format === "csv" ? { format, columns } : { format };
  const request: JobRequest = { kind: "export", selection, options, reason: answer.reason };
  if (await jobs.start(request)) list.selection.clear();
}

/** Adds the selected messages, or all that match, to the examples of a definition, de-identified. */
export async function addExamples<Row>(
  list: ListSource<Row>,
  name: string,
  definition: string,
): Promise<boolean> {
  const options = { format: "deidentified", as_examples: definition };
  const { selection } = chosenOf(list, name);
  const job = await jobs.start({ kind: "export", selection, options });
  if (job) list.selection.clear();
  return job !== undefined;
}
/** The number of rows that an action would be about: "214", or "10,000+". */
export const chosenNumber = <Row>(list: ListSource<Row>, name: string): string =>
  chosenOf(list, name).number;

/** True if the account may do something to many rows. */
export const mayActOnMany = (): boolean => may("operate");
export const mayExport = (): boolean => may("operate") && may("bodies");
export const mayAddExamples = (): boolean => may("author") && may("bodies");
