// The host's actions on the report, each with its one handler (interface document, Actions).
import { ApiProblem } from "../../../shared/api/client";
import type { ActionName } from "../../embedding/contract";
import type { HostBus } from "../../embedding/bus";
import { bracketBy } from "../text/commands";
import * as deeds from "./deeds";
import type { Desk } from "./desk.svelte";
import { applyFindings } from "./findings";

type Handler = (desk: Desk, parameters: Record<string, unknown>) => Promise<void> | void;

const word = (value: unknown): string => (typeof value === "string" ? value : "");

function toBracket(desk: Desk, direction: 1 | -1): void {
  const part = desk.addendum ?? desk.report;
  if (!part?.editor || !bracketBy(part.editor, direction)) {
    throw new ApiProblem(400, "no_bracket", "");
  }
}

const handlers = (host: HostBus): Partial<Record<ActionName, Handler>> => ({
  sign_report: (desk) => deeds.sign(desk),
  unsign_report: deeds.unsign,
  prelim_report: (desk, given) =>
    deeds.prelim(desk, word(given["prelimGroup"]), word(given["prelimTag"])),
  save_report: async (desk) => {
    await desk.flush();
    host.emit("report_saved", {});
  },
  create_addendum: deeds.createAddendum,
  cancel_addendum: deeds.cancelAddendum,
  sign_addendum: (desk) => deeds.signAddendum(desk),
  unsign_addendum: deeds.unsignAddendum,
  apply_report_ai: applyFindings,
  select_next_bracket: (desk) => toBracket(desk, 1),
  select_prev_bracket: (desk) => toBracket(desk, -1),
});

/** Lets the host act on the report; returns what ends it. */
export function serveHost(host: HostBus, desk: Desk): () => void {
  const ends = Object.entries(handlers(host)).map(([action, handle]) =>
    host.on(action, (payload) => carryOut(desk, handle, payload)),
  );
  return () => ends.forEach((end) => end());
}

/** The host hears of a refusal by the bus; whoever sits at the page reads it there. */
async function carryOut(desk: Desk, handle: Handler, payload: unknown): Promise<void> {
  try {
    await handle(desk, (payload ?? {}) as Record<string, unknown>);
  } catch (error) {
    desk.explain(error);
    throw error;
  }
}
