import { describe, expect, it, vi } from "vitest";
import type { PageState } from "../../../host-sdk";
import { ApiProblem } from "../../../shared/api/client";
import { createHostBus, MAX_WAITING, type HostBus } from "./hostMessaging";
import { hostOrigins } from "./hostChannel";
import { HANDLERS } from "../contract";
import { fakeWindow, type FakeOptions } from "./fakeHost";

const HOST = "https://viewer.test";
const ORDER = { SiteID: "S", PatientMRN: "M", Accession: "A" };

function framed(options: FakeOptions = { ancestor: HOST }, origins: string[] = [HOST]) {
  const fake = fakeWindow(options);
  const bus = createHostBus({ origins, window: fake.window, now: () => new Date(0) });
  bus.identify({ reportId: "r1", clinicalInfo: [ORDER, { ...ORDER, Accession: "B" }] });
  return { ...fake, bus };
}

const ready = (bus: HostBus) => bus.emit("report_ready", { status: "DRAFT" });
const settle = () => new Promise((resolve) => setTimeout(resolve));

describe("events", () => {
  it("have the members of the interface reference, and reach only the host's origin", () => {
    const { bus, posted } = framed();
    ready(bus);
    expect(posted).toHaveLength(1);
    expect(posted[0]?.origin).toBe(HOST);
    expect(posted[0]?.message).toMatchObject({
      type: "report_ready",
      reportId: "r1",
      clinicalInfo: ORDER,
      linkedClinicalInfo: [{ ...ORDER, Accession: "B" }],
      status: "DRAFT",
      timestamp: "1970-01-01T00:00:00.000Z",
    });
  });

  it("start with report_ready, which earlier events follow", () => {
    const { bus, posted } = framed();
    bus.emit("report_signed", {});
    bus.emit("report_transfer_proceeded", {});
    expect(posted.map((one) => one.message["type"])).toEqual(["report_transfer_proceeded"]);
    ready(bus);
    expect(posted.map((one) => one.message["type"]).slice(1)).toEqual([
      "report_ready",
      "report_signed",
    ]);
  });

  it("are not sent to a host that is not allowed", () => {
    const { bus, posted } = framed({ ancestor: "https://evil.test" });
    ready(bus);
    expect(bus.embedded).toBe(false);
    expect(posted).toEqual([]);
  });

  it("are strings in WebView2, or objects if the site selects them", () => {
    for (const objects of [false, true]) {
      const postMessage = vi.fn();
      const webview = { postMessage, addEventListener: vi.fn(), removeEventListener: vi.fn() };
      const { window } = fakeWindow({ kind: "alone", webview });
      const bus = createHostBus({ origins: [], window, objects });
      ready(bus);
      const sent: unknown = postMessage.mock.calls[0]?.[0];
      const event = (objects ? sent : JSON.parse(String(sent))) as { type: string };
      expect([typeof sent, event.type]).toEqual([objects ? "object" : "string", "report_ready"]);
    }
  });
});

describe("the host's origin", () => {
  const of = (options: FakeOptions, origins: string[], anyHost = false) =>
    hostOrigins({ origins, window: fakeWindow(options).window, anyHost });

  it("is the configured origin that the browser reports", () => {
    expect(of({ ancestor: HOST }, ["https://other.test", HOST])).toEqual([HOST]);
    expect(of({ referrer: `${HOST}/viewer?x=1` }, [HOST])).toEqual([HOST]);
    expect(of({ kind: "tab", referrer: `${HOST}/` }, [HOST])).toEqual([HOST]);
    expect(of({ ancestor: "null" }, [])).toEqual([]);
  });

  it("is the embedding origin only without configured ones, if the link permits it", () => {
    expect(of({ ancestor: HOST }, [], true)).toEqual([HOST]);
    expect(of({ ancestor: HOST }, [], false)).toEqual([]);
    expect(of({}, [], true)).toEqual([]);
  });

  it("is any configured origin if the browser reports none", () => {
    expect(of({}, [HOST, "https://other.test"])).toEqual([HOST, "https://other.test"]);
  });
});

describe("actions", () => {
  it("are accepted only from the host's window and origin, as objects or strings", async () => {
    const { bus, deliver } = framed();
    const handler = vi.fn();
    bus.on("save_report", handler);
    ready(bus);
    deliver({ action: "save_report" }, "https://evil.test");
    deliver({ action: "save_report" }, HOST, {});
    deliver("not json", HOST);
    deliver(null, HOST);
    expect(handler).not.toHaveBeenCalled();
    deliver({ action: "save_report" }, HOST);
    deliver(JSON.stringify({ action: "save_report" }), HOST);
    await settle();
    expect(handler).toHaveBeenCalledTimes(2);
  });

  it("wait for report_ready, up to twenty of them", async () => {
    const { bus, deliver } = framed();
    const handler = vi.fn();
    bus.on("select_next_bracket", handler);
    for (let count = 0; count < MAX_WAITING + 5; count++) {
      deliver({ action: "select_next_bracket" }, HOST);
    }
    expect(handler).not.toHaveBeenCalled();
    ready(bus);
    await settle();
    expect(handler).toHaveBeenCalledTimes(MAX_WAITING);
  });

  it("that change the report are executed in order", async () => {
    const { bus, deliver } = framed();
    const done: string[] = [];
    bus.on("create_addendum", async () => {
      await settle();
      done.push("create_addendum");
    });
    bus.on("sign_addendum", () => void done.push("sign_addendum"));
    bus.on("user_activity", () => void done.push("user_activity"));
    deliver({ action: "create_addendum" }, HOST);
    ready(bus);
    deliver({ action: "sign_addendum" }, HOST);
    deliver({ action: "user_activity" }, HOST);
    await settle();
    await settle();
    expect(done).toEqual(["user_activity", "create_addendum", "sign_addendum"]);
  });

  it("are refused while a prompt replaces the report", async () => {
    const fake = fakeWindow({ ancestor: HOST });
    const promptOpen = true;
    const bus = createHostBus({
      origins: [HOST],
      window: fake.window,
      promptOpen: () => promptOpen,
    });
    const handler = vi.fn();
    bus.on("sign_report", handler);
    fake.deliver({ action: "sign_report" }, HOST);
    expect(fake.posted[0]?.message).toMatchObject({ type: "action_failed", code: "not_open" });
    ready(bus);
    await settle();
    expect(handler).not.toHaveBeenCalled();
  });

  it("that fail, or lack a parameter or a handler, cause action_failed", async () => {
    const { bus, deliver, posted } = framed();
    bus.on("sign_report", () => Promise.reject(new ApiProblem(500, "already_signed", "signed")));
    bus.on("prelim_report", () => undefined);
    ready(bus);
    deliver({ action: "sign_report" }, HOST);
    deliver({ action: "prelim_report", prelimGroup: "Night" }, HOST);
    deliver({ action: "apply_report_ai" }, HOST);
    await settle();
    const failed = posted.slice(1).map(({ message }) => [message["action"], message["code"]]);
    expect(failed).toHaveLength(3);
    expect(failed).toEqual(
      expect.arrayContaining([
        ["sign_report", "already_signed"],
        ["prelim_report", "missing_parameter"],
        ["apply_report_ai", "not_available"],
      ]),
    );
    const messages = posted.slice(1).map(({ message }) => String(message["message"]));
    expect(messages).toContain("The parameter prelimTag is missing.");
    expect(messages.every((text) => /^[A-Z].*\.$|^signed$/.test(text))).toBe(true);
  });

  it.each(["open_report", "toString", "", "SIGN_REPORT", "x".repeat(5000)])(
    "that do not exist are not available: %.20s",
    async (action) => {
      const { bus, deliver, posted } = framed();
      deliver({ action }, HOST);
      expect(posted).toEqual([]); // report_ready is the first event
      ready(bus);
      deliver(JSON.stringify({ action }), HOST);
      deliver({ action: 5 }, HOST);
      await settle();
      const failed = { type: "action_failed", action: action.slice(0, 100), code: "not_available" };
      expect(posted.slice(1).map(({ message }) => message)).toEqual([
        expect.objectContaining(failed),
        expect.objectContaining(failed),
      ]);
    },
  );

  it("that ask for the state get the last state event through their port", async () => {
    const { bus, deliver } = framed();
    const ask = async () => {
      const { port1, port2 } = new MessageChannel();
      const answer = new Promise<PageState>((resolve) => {
        port1.onmessage = ({ data }: MessageEvent<PageState>) => resolve(data);
      });
      deliver({ action: "get_state" }, HOST, undefined, [port2]);
      const state = await answer;
      port1.close();
      return state;
    };
    const first = await ask();
    expect(first.last).toBeNull();
    ready(bus);
    bus.emit("report_status_changed", { status: "FINAL" });
    const second = await ask();
    expect(second.page).toBe(first.page);
    expect(second.last).toMatchObject({ type: "report_ready", status: "FINAL", reportId: "r1" });
    bus.emit("session_expired", { reason: "ended" });
    expect((await ask()).last).toMatchObject({ type: "session_expired" });
  });

  it("have one handler each, and only known names", () => {
    const { bus } = framed();
    for (const action of Object.keys(HANDLERS)) {
      const end = bus.on(action, () => undefined);
      expect(() => bus.on(action, () => undefined)).toThrow();
      end();
      bus.on(action, () => undefined);
    }
    expect(() => bus.on("open_report", () => undefined)).toThrow();
  });
});
