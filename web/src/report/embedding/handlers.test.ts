import { expect, it } from "vitest";
import { ReportController } from "../editor/controller/reportController.svelte";
import { serveHost } from "../editor/controller/hostActions";
import type { Endpoints } from "../editor/endpoints";
import type { HostBus } from "./host/hostMessaging";
import { HANDLERS } from "./contract";

it("the editor handles each action that is the editor's, and no other", () => {
  const handled: string[] = [];
  const host = {
    on: (action: string) => {
      handled.push(action);
      return () => undefined;
    },
  } as unknown as HostBus;
  serveHost(host, new ReportController({} as Endpoints));
  const wanted = Object.entries(HANDLERS).filter(([, part]) => part === "editor");
  expect(handled.sort()).toEqual(wanted.map(([action]) => action).sort());
});

it("every action of the interface reference has its handler", () => {
  expect(Object.keys(HANDLERS).sort()).toEqual(
    [
      "sign_report",
      "unsign_report",
      "prelim_report",
      "save_report",
      "create_addendum",
      "cancel_addendum",
      "sign_addendum",
      "unsign_addendum",
      "toggle_recorder",
      "select_next_bracket",
      "select_prev_bracket",
      "apply_report_ai",
      "get_microphone_devices",
      "change_microphone",
      "user_activity",
    ].sort(),
  );
});
