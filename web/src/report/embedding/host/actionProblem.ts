// The text that explains why an action failed, in the language of the page.
import { t } from "../../../shared/i18n";

const TEXTS: Readonly<Record<string, string>> = {
  missing_parameter: "embedding.action_missing_parameter",
  not_available: "embedding.action_not_available",
  not_open: "embedding.action_not_open",
  not_editable: "embedding.action_not_editable",
  checks_pending: "embedding.action_checks_pending",
  no_bracket: "embedding.action_no_bracket",
  unknown_device: "embedding.action_unknown_device",
  unreachable: "shell.unreachable",
  timeout: "shell.unreachable",
};

/** Returns the text of a code; `parameter` is the missing one. */
export function actionProblem(code: string, parameter = ""): string {
  return t(TEXTS[code] ?? "editor.failed", { name: parameter });
}
