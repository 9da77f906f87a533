// Answers of the service for the pages of connections, made up around the present time.
import type {
  ChannelPage,
  ChannelSummary,
  Me,
  Group,
  OverviewData,
  Series,
} from "../src/console/data/api-types";

const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000];
const now = () => Date.now();
const wave = (count: number, height: number, seed: number): number[] =>
  Array.from({ length: count }, (_, index) =>
    Math.max(
      0,
      Math.round(
        height * (0.55 + 0.4 * Math.sin(index / 9 + seed) + 0.15 * Math.sin(index * 1.7 + seed)),
      ),
    ),
  );

const me = (): Me => ({
  email: "ada@example.org",
  name: "Ada Reader",
  role: "system-administrator",
  permissions: [
    ...["see", "find", "bodies", "operate", "edit", "author", "code", "connect"],
    ...["administer", "grant", "audit"],
  ],
  sites: null,
  zones: { SITE1: "Europe/Berlin" },
  home: "overview",
  start: { left: 0 },
});

function summary(own: Partial<ChannelSummary> & Pick<ChannelSummary, "kind" | "name">) {
  const seed = own.name.length;
  const base: ChannelSummary = {
    kind: own.kind,
    name: own.name,
    sites: ["SITE1"],
    shared: false,
    enabled: true,
    state: "running",
    condition: null,
    rate: 18,
    errors: 0,
    share: 0,
    waiting: 0,
    oldest: null,
    p50: 14,
    p99: 61,
    spark: wave(96, 40, seed),
    spark_bad: [],
    active_at: now() - 2 * SECOND,
    certificate: null,
  };
  return { ...base, ...own };
}

function channels(): ChannelSummary[] {
  return [
    summary({
      kind: "listener",
      name: "ris-a",
      rate: 41,
      errors: 2,
      share: 0.001,
      p50: 4,
      p99: 11,
    }),
    summary({
      kind: "destination",
      name: "his-results",
      state: "refusing",
      condition: { severity: "red", text: "his-results rejects everything since 14:02." },
      rate: 0,
      errors: 31,
      share: 1,
      waiting: 31,
      oldest: now() - 2.2 * HOUR,
      p50: 12,
      p99: 90,
      spark_bad: Array.from({ length: 96 }, (_, index) => (index > 87 ? 4 : 0)),
      active_at: now() - 8 * SECOND,
    }),
    summary({
      kind: "listener",
      name: "his-b",
      state: "silent",
      condition: { severity: "amber", text: "his-b has been silent for 47 min." },
      rate: 0,
      p50: 3,
      p99: 9,
      spark: wave(96, 20, 5).map((value, index) => (index > 92 ? 0 : value)),
      active_at: now() - 47 * MINUTE,
    }),
    summary({
      kind: "destination",
      name: "pacs-tls",
      state: "certificate",
      condition: { severity: "amber", text: "The certificate of pacs-tls expires in 9 days." },
      rate: 2,
      p50: 31,
      p99: 88,
      certificate: now() + 9 * DAY,
    }),
    summary({ kind: "destination", name: "ris-results", waiting: 3, oldest: now() - SECOND }),
    summary({
      kind: "listener",
      name: "ris-c",
      enabled: false,
      state: "off",
      rate: 0,
      p50: null,
      p99: null,
      spark: Array.from({ length: 96 }, () => 0),
      active_at: now() - 17 * DAY,
    }),
    summary({
      kind: "listener",
      name: "central-adt",
      shared: true,
      sites: ["*"],
      ...{ rate: null, errors: null, share: null, waiting: null, p50: null, p99: null, spark: [] },
    }),
  ];
}

const cause = (
  subject: Group["subject"],
  kind: Group["kind"],
  channel: string,
  count: number,
  age: number,
  more: Partial<Group>,
): Group => ({
  ...{ key: `${subject} ${channel}`, subject, severity: "red", code: "", kind, channel, count },
  ...{ first_at: now() - age, last_at: now() - age, words: "", action: "check connection" },
  ...{ advice: "", applied: false, list: "", filters: {}, reference: null },
  ...more,
});
const overview = (): OverviewData => ({
  now: now(),
  channels: channels(),
  needs: {
    complete: true,
    checked: true,
    groups: [
      cause("conditions", "destination", "his-results", 0, 2.2 * HOUR, {
        words: "Destination his-results refuses everything: the last 31 messages, for 2 h",
        advice: "Read the last reply, and correct the receiver or the mapping.",
        list: "deliveries",
        filters: { destination: ["his-results"], state: ["open", "parked"] },
      }),
      cause("messages", "listener", "ris-a", 14, 4 * MINUTE, {
        words: "The site of the order does not exist",
        action: "add site",
        advice: "Add the site, then try again, oldest first.",
        list: "messages",
        filters: { channel: ["ris-a"], state: ["parked"] },
      }),
      cause("conditions", "listener", "his-b", 0, 47 * MINUTE, {
        severity: "amber",
        words: "Listener his-b has received nothing for 47 min; it usually has 12 messages",
        advice: "Check the connection to the sender, and ask the sender.",
      }),
      cause("conditions", "destination", "pacs-tls", 0, 3 * HOUR, {
        severity: "amber",
        words: "The certificate of destination pacs-tls expires in 9 d",
        advice: "Replace the file: new connections use it at once.",
      }),
    ],
  },
  totals: { received: 18_402, sent: 6_114 },
});

function channelPage(kind: string, name: string): ChannelPage {
  const isListener = kind === "listener";
  const found = channels().find((one) => one.kind === kind && one.name === name);
  const known = found ?? summary({ kind: isListener ? "listener" : "destination", name });
  return {
    summary: known,
    address: isListener ? "0.0.0.0:2575" : "10.1.9.9:6661",
    source: "both",
    paused_at: null,
    paused_by: "",
    open_until: null,
    problem: known.state === "refusing" ? "AE 103 Table value not found at OBR-4" : "",
    settings: isListener
      ? {
          name,
          bind: "0.0.0.0:2575",
          mappings: ["ris-a", "patients"],
          site: "SITE1",
          charset: "iso-8859-15",
        }
      : {
          name,
          address: "10.1.9.9:6661",
          mapping: "results-his",
          sites: ["SITE2"],
          version: "2.3",
        },
    definitions: [
      {
        name: isListener ? "ris-a" : "results-his",
        version: "3f9a21c4e0d1b2a37788990011223344",
        at: now() - 3 * DAY,
        actor: "mara@example.org",
        reason: "MRN from PID-2",
      },
      ...(isListener
        ? [{ name: "patients", version: "88b0e2d9", at: now() - 40 * DAY, actor: "", reason: "" }]
        : []),
    ],
    conditions: known.condition
      ? [
          {
            key: "one",
            severity: known.condition.severity,
            text: known.condition.text,
            action: "",
            raised_at: now() - 2 * HOUR,
          },
        ]
      : [],
    handshakes: isListener
      ? [
          {
            peer: "10.1.4.7",
            reason: "the peer does not speak TLS",
            subject: "",
            is_trouble: true,
            count: 3,
            last_at: now() - 12 * MINUTE,
          },
        ]
      : [],
    start_failures: [],
  };
}

const SPANS: Readonly<Record<string, [number, number]>> = {
  "1h": [60, MINUTE],
  "24h": [96, 15 * MINUTE],
  "7d": [168, HOUR],
  "30d": [240, 3 * HOUR],
};
function series(kind: string, span: string): Series {
  const [count, step] = SPANS[span] ?? [96, 15 * MINUTE];
  const end = Math.floor(now() / step) * step;
  const names =
    kind === "listener"
      ? { done: 40, ignored: 6, parked: 1, refused: 0.7 }
      : { delivered: 30, refused: 3, unanswered: 0.6 };
  const outcomes = Object.fromEntries(
    Object.entries(names).map(([name, height], index) => [name, wave(count, height, 3 * index)]),
  );
  return {
    step,
    from: end - (count - 1) * step,
    outcomes,
    p50: wave(count, 6, 1).map((value) => value + 2),
    p99: wave(count, 22, 4).map((value) => value + 9),
    waiting: wave(count, 5, 2),
    oldest: wave(count, 900, 2),
    week_before: {
      outcomes: Object.fromEntries(
        Object.entries(names).map(([name, height], index) => [
          name,
          wave(count, 0.9 * height, 3 * index + 0.8),
        ]),
      ),
      p50: wave(count, 5, 1.4).map((value) => value + 2),
    },
    gaps: [[end - 12 * step, end - 10 * step]],
  };
}

const messages = () => ({
  rows: Array.from({ length: 8 }, (_, index) => ({
    id: 81_204 - index,
    received_at: now() - index * 9 * SECOND - 2000,
    listener: "ris-a",
    message_type: index % 3 === 1 ? "ADT^A08" : "ORM^O01",
    state: index === 4 ? "parked" : index === 6 ? "ignored" : "done",
    ack_code: "AA",
    cause: index === 4 ? "site" : "",
    cause_text: index === 4 ? "Site NORTH2 does not exist." : "",
    settled_at: now() - index * 9 * SECOND - 1990,
    ...{ action: "", attempts: 1, retransmits: 0, flags: 0, mapping: "ris-a", mapping_version: "" },
  })),
  next: 81_196,
});
const deliveries = () => ({
  rows: Array.from({ length: 8 }, (_, index) => ({
    id: 90_112 - index,
    created_at: now() - index * 40 * SECOND,
    destination: "his-results",
    event: index % 3 ? "final" : "addendum",
    report_id: "3b1f9c02",
    state: index < 5 ? "retrying" : "done",
    attempts: index < 5 ? 5 : 1,
    cause: index < 5 ? "AE" : "",
    cause_text: index < 5 ? "AE 103 Table value not found at OBR-4" : "",
    latency: 12,
    ...{ action: "", not_before: null, sent_at: null, acknowledged_at: null, waits_for: null },
  })),
  next: null,
});

const activation = (version: string, age: number, reason: string, origin = "activate") => ({
  ...{ version, actor: "ola@example.org", reason, origin },
  at: now() - age,
});
function settings(kind: string, name: string) {
  const history = [
    activation("3f9a21c4e0d1b2a37788990011223344", 3 * DAY, "sender changed to Latin-9"),
    activation("88b0e2d9e0d1b2a37788990011223344", 20 * DAY, "first settings"),
  ];
  const { settings: table } = channelPage(kind, name);
  return { name, table, in_force: history[0], in_file: true, history };
}
function channelList() {
  const rows = channels().map((one) => ({
    ...{ name: one.name, sites: one.sites, shared: one.shared, enabled: one.enabled },
    ...{ active_at: one.active_at, certificate: one.certificate, loaded: true, trouble: "" },
    address: one.kind === "listener" ? "0.0.0.0:2575" : "https://his.example.org/hl7/results",
    paused_at: one.name === "ris-results" ? now() - HOUR : null,
    paused_by: "ola@example.org",
    open_until: null,
    refused: one.state === "refusing" ? 31 : 0,
    problem: one.state === "refusing" ? "AE 103 Table value not found" : "",
    handshake_failures: [],
    source: one.name === "ris-a" ? "both" : one.kind === "listener" ? "file" : "console",
    silence: one.state === "silent" ? 30 * MINUTE : 0,
    kind: one.kind,
  }));
  return {
    listeners: rows.filter(({ kind }) => kind === "listener"),
    destinations: rows.filter(({ kind }) => kind === "destination"),
  };
}
const sites = () => [
  { SiteID: "SITE1", name: "North clinic", timeZone: "Europe/Berlin", signDelay: 60 },
  { SiteID: "SITE2", name: "Street department", timeZone: "Europe/Vienna", signDelay: 0 },
];

const grants = () => ({
  rows: [
    ...[["ada@example.org", "system-administrator", true, null, false, true]],
    ...[["ola@site1.test", "operator", true, ["SITE1"], false, false]],
    ...[["vera@site1.test", "viewer", false, ["SITE1", "SITE2"], true, false]],
  ].map(([email, role, bodies, visible, pending, secondFactor], index) => ({
    ...{ accountId: String(index + 1), email, role, bodies, sites: visible, pending },
    ...{ secondFactor, disabled: false },
  })),
});

/** Returns the answer to a path below /console/api/; undefined if it is not one of these. */
export function answerOf(path: string, query: URLSearchParams): unknown {
  const [area = "", kind = "", name = "", what = ""] = path.split("/");
  if (path === "me") return me();
  if (path === "overview") return overview();
  if (path === "lists/messages") return messages();
  if (path === "lists/deliveries") return deliveries();
  if (path === "channels") return channelList();
  if (path === "sites") return sites();
  if (path === "grants") return grants();
  if (area === "connections" && name === "check") return { mistakes: [], warnings: [] };
  if (area === "connections" && name) return settings(kind, decodeURIComponent(name));
  if (area === "channels" && what === "series") return series(kind, query.get("span") ?? "24h");
  if (area === "channels" && what === "test")
    return {
      steps: [
        { name: "resolve", ok: true, code: "", took: 1, expires: null },
        { name: "connect", ok: true, code: "", took: 4, expires: null },
        { name: "tls", ok: true, code: "TLSv1.3", took: 11, expires: null },
        { name: "certificate", ok: true, code: "", took: 0, expires: now() + 90 * DAY },
        { name: "stays", ok: true, code: "", took: 1000, expires: null },
      ],
    };
  if (area === "channels" && name && !what) return channelPage(kind, decodeURIComponent(name));
  return undefined;
}
