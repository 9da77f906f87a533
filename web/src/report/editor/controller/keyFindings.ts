// apply_report_ai: inserts the key findings into the sections as suggestions, which the user
// keeps or removes. It does not sign the report.
import { ApiProblem } from "../../../shared/api/client";
import { t } from "../../../shared/i18n";
import { replaceAll } from "../text/commands";
import { canonical, type ReportDocument } from "../text/document";
import type { ReportController } from "./reportController.svelte";
import type { TextPart } from "./textPart.svelte";

/** Returns the key findings of all orders, each once. */
function keyFindings(controller: ReportController): string {
  const all = (controller.page?.orders ?? []).map((order) => (order["KeyFindings"] ?? "").trim());
  return [...new Set(all.filter(Boolean))].join("\n");
}

/**
 * Requests a result for the text, and repeats the request if the text has changed since, so that
 * a response never overwrites input. Rejects if the text is not editable.
 */
export async function requestForText<Made>(
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
export async function applyFindings(controller: ReportController): Promise<void> {
  const findings = keyFindings(controller);
  if (!findings) throw new ApiProblem(400, "no_findings", t("ai.no_findings"));
  const part = controller.addendum ?? controller.report;
  if (!part?.editor?.isEditable) throw new ApiProblem(409, "not_editable", "");
  const { document: after } = await requestForText(part, (content) =>
    controller.endpoints.applyFindings(content, findings),
  );
  if (canonical(after) === canonical(part.content()))
    throw new ApiProblem(400, "nothing_new", t("ai.nothing_new"));
  replaceAll(part.editor, after);
  part.editor.view.focus();
}
