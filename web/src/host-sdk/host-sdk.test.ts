import { expect, it, vi } from "vitest";
import { connect, createReportFrame, type AnyReportEvent } from "./index";

const ORIGIN = "https://reports.test";

/** A frame with a window that records its messages. */
function framed() {
  const posted: [unknown, string][] = [];
  const app = { postMessage: (message: unknown, origin: string) => posted.push([message, origin]) };
  const frame = { contentWindow: app, src: "" } as unknown as HTMLIFrameElement;
  const connection = connect(frame, { origin: ORIGIN });
  const deliver = (data: unknown, origin = ORIGIN, source: unknown = app) => {
    const event = new MessageEvent("message", { data, origin });
    Object.defineProperty(event, "source", { value: source });
    window.dispatchEvent(event);
  };
  return { posted, frame, connection, deliver };
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
  connection.load("https://reports.test/x");
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
  const other = { postMessage: (message: unknown) => posted.push(message) };
  const opened = new Proxy(other, { has: forbidden }) as unknown as Window;
  connect(opened, { origin: ORIGIN }).send("save_report");
  expect(posted).toEqual([{ action: "save_report" }]);
});
