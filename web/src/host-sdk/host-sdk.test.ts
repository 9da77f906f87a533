import { afterEach, expect, it, vi } from "vitest";
import {
  connect,
  createReportFrame,
  NO_PAGE_AFTER_MS,
  type AnyReportEvent,
  type PageState,
} from "./index";

const ORIGIN = "https://reports.test";

afterEach(() => vi.useRealTimers());

/** A frame with a window that records its actions, and answers requests for its state. */
function framed({ src = "", state = null as PageState | null } = {}) {
  const posted: [unknown, string][] = [];
  const shown = { state };
  const app = {
    postMessage(message: { action: string }, origin: string, ports?: MessagePort[]) {
      if (message.action !== "get_state") posted.push([message, origin]);
      else if (shown.state) ports?.[0]?.postMessage(shown.state);
    },
  };
  const loads = new EventTarget();
  const frame = Object.assign(loads, { contentWindow: app, src }) as unknown as HTMLIFrameElement;
  const connection = connect(frame, { origin: ORIGIN });
  const deliver = (data: unknown, origin = ORIGIN, source: unknown = app) => {
    const event = new MessageEvent("message", { data, origin });
    Object.defineProperty(event, "source", { value: source });
    window.dispatchEvent(event);
  };
  return { posted, frame, connection, deliver, shown };
}

it("accepts events of its own frame and origin only", async () => {
  const { connection, deliver } = framed();
  const received: AnyReportEvent[] = [];
  connection.on("*", (event) => received.push(event));
  const ready = connection.next("report_ready");
  deliver({ type: "report_ready", status: "DRAFT" }, "https://evil.test");
  deliver({ type: "report_ready", status: "DRAFT" }, ORIGIN, {});
  deliver("report_ready");
  deliver({ type: "report_ready", status: "FINAL" });
  expect((await ready).status).toBe("FINAL");
  expect(received).toHaveLength(1);
  connection.close();
  deliver({ type: "report_saved" });
  expect(received).toHaveLength(1);
});

it("sends actions to the app's origin, with their parameters", () => {
  const { connection, posted, frame } = framed();
  connection.send("sign_report");
  connection.send("prelim_report", { prelimGroup: "Night", prelimTag: "Resident" });
  void connection.load("https://reports.test/x");
  expect(posted).toEqual([
    [{ action: "sign_report" }, ORIGIN],
    [{ action: "prelim_report", prelimGroup: "Night", prelimTag: "Resident" }, ORIGIN],
  ]);
  expect(frame.src).toBe("https://reports.test/x");
  connection.close();
});

it("shares the user's activity, at most every few seconds", () => {
  const { connection, posted } = framed();
  const clock = vi.spyOn(performance, "now").mockReturnValue(10_000);
  const end = connection.shareActivity();
  for (const at of [10_000, 11_000, 15_001]) {
    clock.mockReturnValue(at);
    window.dispatchEvent(new KeyboardEvent("keydown"));
  }
  end();
  window.dispatchEvent(new KeyboardEvent("keydown"));
  expect(posted.map(([message]) => message)).toEqual(Array(2).fill({ action: "user_activity" }));
  clock.mockRestore();
  connection.close();
});

it("creates frames with the permissions of reports", () => {
  const frame = createReportFrame(document, "Report");
  for (const name of [
    "microphone",
    "screen-wake-lock",
    "clipboard-read",
    "clipboard-write",
    "hid",
  ]) {
    expect(frame.allow).toContain(name);
  }
});

it("accepts a window of another site, whose properties are not readable", () => {
  const posted: unknown[] = [];
  const forbidden = () => {
    throw new DOMException("", "SecurityError");
  };
  const other = {
    postMessage: (message: { action: string }) =>
      void (message.action === "get_state" || posted.push(message)),
  };
  const opened = new Proxy(other, { has: forbidden }) as unknown as Window;
  const connection = connect(opened, { origin: ORIGIN });
  connection.send("save_report");
  connection.close();
  expect(posted).toEqual([{ action: "save_report" }]);
});

const at = (second: number) => `2026-11-28T10:00:0${second}.000Z`;
const readyAt = (second: number) =>
  ({
    type: "report_ready",
    status: "DRAFT",
    timestamp: at(second),
    messageId: `m${second}`,
  }) as AnyReportEvent;

it("gets report_ready of a page that was ready before, once", async () => {
  const state = { page: "p1", last: readyAt(1) };
  const { connection, deliver } = framed({ src: "https://reports.test/x", state });
  const heard = vi.fn();
  connection.on("*", heard);
  const events = await Promise.all([
    connection.next("report_ready"),
    connection.next("report_ready"),
  ]);
  expect(events.map((event) => event.type)).toEqual(["report_ready", "report_ready"]);
  expect(heard).toHaveBeenCalledTimes(1);
  const second = connection.next("report_ready");
  deliver(readyAt(5));
  expect((await second).timestamp).toBe(at(5));
  connection.close();
});

it("gets report_ready once if the answer with it overtakes the event", async () => {
  const state = { page: "p1", last: readyAt(1) };
  const { connection, deliver } = framed({ src: "https://reports.test/x", state });
  const heard = vi.fn();
  connection.on("*", heard);
  await connection.next("report_ready");
  deliver(readyAt(1)); // messages of the window and of a port have no common order
  expect(heard).toHaveBeenCalledTimes(1);
  deliver(readyAt(5));
  expect(heard).toHaveBeenCalledTimes(2);
  connection.close();
});

it("keeps report_ready for the first that asks, however late", async () => {
  const { connection, deliver } = framed({ src: "https://reports.test/x" });
  deliver(readyAt(1));
  const [one, other] = [connection.next("report_ready"), connection.next("report_ready")];
  expect((await one).timestamp).toBe(at(1));
  expect((await other).timestamp).toBe(at(1));
  const late = vi.fn();
  connection.on("report_ready", late);
  await Promise.resolve();
  expect(late).not.toHaveBeenCalled();
  connection.close();
});

it("does not repeat an event that it has heard, nor one of the page before", async () => {
  const { connection, deliver, shown } = framed({ src: "https://reports.test/x" });
  const heard = vi.fn();
  connection.on("report_ready", heard);
  deliver(readyAt(1));
  shown.state = { page: "p1", last: readyAt(1) };
  await connection.load("https://reports.test/x");
  const arrived = vi.fn();
  void connection.load("https://reports.test/y").then(arrived); // p1 is still shown
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(arrived).not.toHaveBeenCalled();
  shown.state = { page: "p2", last: readyAt(4) };
  await vi.waitFor(() => expect(arrived).toHaveBeenCalled());
  expect(heard).toHaveBeenCalledTimes(2);
  connection.close();
});

it("rejects if no page of the app answers, and asks again", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const { connection } = framed();
  const idle = connection.next("report_ready").catch((problem: Error) => problem);
  await vi.advanceTimersByTimeAsync(NO_PAGE_AFTER_MS * 2);
  const loaded = connection.load("https://reports.test/x").catch((problem: Error) => problem);
  await vi.advanceTimersByTimeAsync(NO_PAGE_AFTER_MS);
  for (const problem of [await idle, await loaded]) {
    expect(problem).toMatchObject({ code: "no_page", name: "ConnectionProblem" });
  }
  const again = connection.next("report_saved").catch((problem: Error) => problem);
  await vi.advanceTimersByTimeAsync(NO_PAGE_AFTER_MS);
  expect(await again).toMatchObject({ code: "no_page" });
  connection.close();
});

it("waits while the page is there, or as long as the host wants", async () => {
  const state = { page: "p1", last: null };
  const { connection } = framed({ src: "https://reports.test/x", state });
  await connection.load("https://reports.test/x").catch(() => undefined);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const settled = vi.fn();
  void connection.next("report_signed").then(settled, settled);
  const limited = connection
    .next("report_signed", { timeout: 60_000 })
    .catch((problem: Error) => problem);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await limited).toMatchObject({ code: "timeout" });
  expect(settled).not.toHaveBeenCalled();
  connection.close();
});
