// Monitors activity: pointer and keys in this page, user_activity from the host, a running
// recorder. Reports activity to the service at intervals, which resets its timeout.
import type { Api } from "../../shared/api/client";
import type { Boot } from "../boot";
import { Activity, type SessionState } from "./inactivity";
import type { HostBus } from "./host/hostMessaging";

const ACTIVITY_EVENTS = ["pointerdown", "pointermove", "keydown", "wheel", "touchstart"] as const;
const TICK_MS = 1000;

export interface ActivityMonitor {
  readonly state: SessionState;
  note(): void;
  stop(): void;
}

export function monitorActivity(given: { boot: Boot; api: Api; host: HostBus }): ActivityMonitor {
  const { boot, api, host } = given;
  const rules = { idleMs: boot.window.idleSeconds * 1000, endsAt: boot.window.expiresAt };
  const activity = new Activity(rules, Date.now());
  let state = $state.raw<SessionState>({ kind: "active" });
  let dismissed = false;
  let recording = false;

  const note = () => activity.note(Date.now());
  // While the warning is open, only its button or the host extend the session.
  const noteInput = () => state.kind === "active" && note();

  function tick(): void {
    const now = Date.now();
    if (recording) activity.note(now);
    if (activity.due(now)) {
      api.post("/reporting/api/session/activity").catch(() => undefined);
    }
    const next = activity.state(now);
    if (next.kind === "active") dismissed = false;
    const silenced = dismissed && next.kind === "warning" && !next.idle;
    state = silenced ? { kind: "active" } : next;
  }

  const timer = setInterval(tick, TICK_MS);
  for (const event of ACTIVITY_EVENTS)
    addEventListener(event, noteInput, { passive: true, capture: true });
  const ends = [
    host.on("user_activity", () => activity.noteHost(Date.now())),
    host.watch((event) => {
      if (event === "recorder_on" || event === "recorder_off") recording = event === "recorder_on";
    }),
  ];
  return {
    get state() {
      return state;
    },
    note() {
      dismissed = true;
      note();
      tick();
    },
    stop() {
      clearInterval(timer);
      for (const event of ACTIVITY_EVENTS) removeEventListener(event, noteInput, { capture: true });
      for (const end of ends) end();
    },
  };
}
