// The host's actions on the report with their handlers (report service interface, Actions).
import { ApiProblem } from "../../../shared/api/client";
import type { ActionName } from "../../embedding/contract";
import type { HostBus } from "../../embedding/host/hostMessaging";
import { bracketBy } from "../text/commands";
import * as reportActions from "./reportActions";
import type { ReportController } from "./reportController.svelte";
import { applyFindings } from "./keyFindings";

type Handler = (
  controller: ReportController,
  parameters: Record<string, unknown>,
) => Promise<void> | void;

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

function toBracket(controller: ReportController, direction: 1 | -1): void {
  const part = controller.addendum ?? controller.report;
  if (!part?.editor || !bracketBy(part.editor, direction)) {
    throw new ApiProblem(400, "no_bracket", "");
  }
}

const handlers = (host: HostBus): Partial<Record<ActionName, Handler>> => ({
  sign_report: (controller) => reportActions.sign(controller),
  unsign_report: reportActions.unsign,
  prelim_report: (controller, given) =>
    reportActions.prelim(controller, textOf(given["prelimGroup"]), textOf(given["prelimTag"])),
  save_report: async (controller) => {
    await controller.flush();
    host.emit("report_saved", {});
  },
  create_addendum: reportActions.createAddendum,
  cancel_addendum: reportActions.cancelAddendum,
  sign_addendum: (controller) => reportActions.signAddendum(controller),
  unsign_addendum: reportActions.unsignAddendum,
  apply_report_ai: applyFindings,
  select_next_bracket: (controller) => toBracket(controller, 1),
  select_prev_bracket: (controller) => toBracket(controller, -1),
});

/** Registers the host's actions on the report; returns the unregister function. */
export function serveHost(host: HostBus, controller: ReportController): () => void {
  const ends = Object.entries(handlers(host)).map(([action, handle]) =>
    host.on(action, (payload) => perform(controller, handle, payload)),
  );
  return () => ends.forEach((end) => end());
}

/** The host gets a refusal as an event; the user sees it on the page. */
async function perform(
  controller: ReportController,
  handle: Handler,
  payload: unknown,
): Promise<void> {
  try {
    await handle(controller, (payload ?? {}) as Record<string, unknown>);
  } catch (error) {
    controller.explain(error);
    throw error;
  }
}
