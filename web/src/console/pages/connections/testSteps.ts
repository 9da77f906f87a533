// The steps of a connection test, as the step list shows them.
import { t } from "../../texts";
import { exactTime } from "../../ui/time";

export interface TestStep {
  name: string;
  ok: boolean;
  code: string;
  /** Milliseconds. */
  took: number;
  /** When a certificate expires. */
  expires: number | null;
}

export function shownSteps(steps: readonly TestStep[], zone: string) {
  return steps.map((step, index) => ({
    id: `${index} ${step.name}`,
    title: t(`connection_test.${step.name}`),
    state: step.ok ? ("ok" as const) : ("failed" as const),
    took: step.took,
    detail: [
      step.code,
      step.expires === null
        ? ""
        : t("connection_test.expires", { at: exactTime(step.expires, Date.now(), zone) }),
    ]
      .filter(Boolean)
      .join(" · "),
  }));
}
