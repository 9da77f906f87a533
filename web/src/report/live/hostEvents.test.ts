// @vitest-environment node
import { describe, expect, it } from "vitest";
import { EMITTERS } from "../embedding/contract";
import { forwardChanges, translate } from "./hostEvents";
import type { LiveChange } from "./liveStream";

const RECORD = { reportId: "r", clinicalInfo: [{ SiteID: "S", PatientMRN: "M", Accession: "A" }] };

function change(event: string, more: Partial<LiveChange> = {}): LiveChange {
  const at = "2026-01-01T00:00:00.000Z";
  return {
    cursor: 1,
    event,
    at,
    own: false,
    gone: false,
    status: "Draft",
    record: RECORD,
    ...more,
  };
}

const DRAFT = { status: "DRAFT", mine: true } as const;
const namesOf = (data: LiveChange, before = DRAFT as Parameters<typeof translate>[1]) =>
  translate(data, before)[0].map(([event]) => event);

describe("a change becomes events", () => {
  it("a signature has its time and content, and the status follows", () => {
    const data = change("report_signed", {
      status: "Final",
      signedAt: "2026-01-01T00:00:00.000Z",
      content: "x",
      html_content: "<p>x</p>",
    });
    expect(translate(data, DRAFT)[0]).toEqual([
      [
        "report_signed",
        { signedAt: "2026-01-01T00:00:00.000Z", content: "x", html_content: "<p>x</p>" },
      ],
      ["report_status_changed", { status: "FINAL" }],
    ]);
  });

  it("an addendum's content follows that of the report", () => {
    const data = change("addendum_content_updated", {
      status: "Draft",
      content: "addendum",
      reportContent: "report",
    });
    expect(translate(data, DRAFT)[0]).toEqual([
      ["report_content_updated", { content: "report" }],
      ["addendum_content_updated", { content: "addendum" }],
    ]);
  });

  it("a transfer notifies only the previous editor, once", () => {
    const taken = change("report_transferred", { mine: false, newOwnerName: "Otto" });
    const [events, after] = translate(taken, DRAFT);
    expect(events).toEqual([["report_transferred", { newOwnerName: "Otto" }]]);
    expect(translate(taken, after)[0]).toEqual([]);
    expect(namesOf(change("report_transferred", { mine: true }))).toEqual([]);
  });

  it("a deletion discards the report, without a status", () => {
    expect(namesOf(change("report_deleted", { gone: true, status: "Draft" }))).toEqual([
      "report_discarded",
    ]);
    expect(namesOf(change("report_reset", { status: "Ordered" }))).toEqual([
      "report_content_updated",
      "report_status_changed",
    ]);
  });

  it("every event of the feed has a change that leads to it", () => {
    const extras = ["report_deleted", "report_prelimed", "report_transferred"];
    const found = new Set(
      [...Object.keys(EMITTERS), ...extras].flatMap((event) =>
        namesOf(change(event, { status: "Preliminary", mine: false })),
      ),
    );
    const wanted = Object.entries(EMITTERS).filter(([, emitter]) => emitter === "feed");
    expect([...found].sort()).toEqual(wanted.map(([event]) => event).sort());
  });
});

/** A host and a live stream that record the emitted events. */
function lines() {
  const handlers = new Map<string, (data: unknown) => void>();
  const emitted: string[] = [];
  let watcher: (event: string, payload: unknown) => void = () => undefined;
  const host = {
    embedded: true,
    emit: (event: string) => emitted.push(event),
    on: () => () => undefined,
    identify: () => undefined,
    watch: (listener: typeof watcher) => {
      watcher = listener;
      return () => undefined;
    },
    close: () => undefined,
  };
  const live = {
    on: (kind: string, handler: (data: unknown) => void) => {
      handlers.set(kind, handler);
      return () => undefined;
    },
    close: () => undefined,
  };
  forwardChanges(host, live, true);
  return {
    emitted,
    receive: (data: LiveChange) => handlers.get("change")?.(data),
    ready: (status: string) => watcher("report_ready", { status }),
  };
}

describe("changes before report_ready", () => {
  it("wait for it and are compared with its status", () => {
    const { emitted, receive, ready } = lines();
    receive(change("report_opened", { status: "Draft", mine: true }));
    receive(change("report_signed", { status: "Final" }));
    expect(emitted).toEqual([]);
    ready("FINAL");
    expect(emitted).toEqual(["report_status_changed", "report_signed", "report_status_changed"]);
  });

  it("notify at once of a discarded report, which will not open", () => {
    const { emitted, receive } = lines();
    receive(change("report_deleted", { gone: true }));
    expect(emitted).toEqual(["report_discarded"]);
  });
});
