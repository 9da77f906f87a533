// apply_report_ai: the key findings go into the sections of the text as suggestions, which a person
// keeps or removes. Nothing is saved or signed by it that was not typed.
import { ApiProblem } from "../../../shared/api/client";
import { t } from "../../../shared/i18n";
import { replaceAll } from "../text/commands";
import { canonical } from "../text/document";
import type { Desk } from "./desk.svelte";

/** Returns the key findings of all orders, each once. */
function keyFindings(desk: Desk): string {
  const all = (desk.page?.orders ?? []).map((order) => (order["KeyFindings"] ?? "").trim());
  return [...new Set(all.filter(Boolean))].join("\n");
}

/** Rejects when there is nothing to apply, or no text to apply it to. */
export async function applyFindings(desk: Desk): Promise<void> {
  const findings = keyFindings(desk);
  if (!findings) throw new ApiProblem(400, "no_findings", t("ai.no_findings"));
  const part = desk.addendum ?? desk.report;
  if (!part?.editor?.isEditable) throw new ApiProblem(409, "not_editable", "");
  let before = "";
  let after = part.content();
  // What is typed while the answer is on its way is not overwritten: it is asked again.
  while (canonical(part.content()) !== before) {
    const content = part.content();
    before = canonical(content);
    after = (await desk.endpoints.applyFindings(content, findings)).document;
  }
  if (canonical(after) === before) throw new ApiProblem(400, "nothing_new", t("ai.nothing_new"));
  replaceAll(part.editor, after);
  part.editor.view.focus();
}
