// apply_report_ai: the key findings go into the sections of the text as suggestions, which a person
// keeps or removes. Nothing is saved or signed by it that was not typed.
import { ApiProblem } from "../../../shared/api/client";
import { t } from "../../../shared/i18n";
import { replaceAll } from "../text/commands";
import { canonical, type ReportDocument } from "../text/document";
import type { Desk } from "./desk.svelte";
import type { TextPart } from "./part.svelte";

/** Returns the key findings of all orders, each once. */
function keyFindings(desk: Desk): string {
  const all = (desk.page?.orders ?? []).map((order) => (order["KeyFindings"] ?? "").trim());
  return [...new Set(all.filter(Boolean))].join("\n");
}

/**
 * Asks for something made of a text, again until the text stands still meanwhile: what is typed
 * while an answer is on its way is not overwritten by it. Rejects where nothing may be written.
 */
export async function madeOf<Made>(
  part: Pick<TextPart, "content" | "editor">,
  ask: (content: ReportDocument) => Promise<Made>,
): Promise<Made> {
  for (;;) {
    const content = part.content();
    const made = await ask(content);
    if (!part.editor?.isEditable) throw new ApiProblem(409, "not_editable", "");
    if (canonical(part.content()) === canonical(content)) return made;
  }
}

/** Rejects when there is nothing to apply, or no text to apply it to. */
export async function applyFindings(desk: Desk): Promise<void> {
  const findings = keyFindings(desk);
  if (!findings) throw new ApiProblem(400, "no_findings", t("ai.no_findings"));
  const part = desk.addendum ?? desk.report;
  if (!part?.editor?.isEditable) throw new ApiProblem(409, "not_editable", "");
  const { document: after } = await madeOf(part, (content) =>
    desk.endpoints.applyFindings(content, findings),
  );
  if (canonical(after) === canonical(part.content()))
    throw new ApiProblem(400, "nothing_new", t("ai.nothing_new"));
  replaceAll(part.editor, after);
  part.editor.view.focus();
}
