// What the engine tells the page before its first call: <script type="application/json" id="boot">.

export type Mode = "report" | "waiting" | "worklist" | "login" | "share" | "message";

export interface PrelimGroup {
  name: string;
  tags: string[];
}

/** What the page must know of its window (bridge/engine/service/launch/seating.py). */
export interface WindowFacts {
  /** Where the live feed begins. */
  cursor: number;
  idleSeconds: number;
  /** Milliseconds since the epoch. */
  expiresAt: number;
  /** Whether the window follows launches with SyncLaunch. */
  persistent: boolean;
  webViewObjects: boolean;
  /** No host origins are configured: the page that frames this one is the host. */
  anyHost: boolean;
}

export interface Boot {
  mode: Mode;
  /** The page's session, sent as the bearer; null where an account's cookie speaks. */
  session: string | null;
  locale: string;
  hostOrigins: string[];
  theme: "dark" | "light" | "system";
  features: Record<string, boolean>;
  /** mode 'report' */
  reportId: string;
  transfer: boolean;
  owner: string;
  prelimGroups: PrelimGroup[];
  window: WindowFacts;
  /** mode 'message' and 'login' */
  message: string;
  /** mode 'login': the link that is opened after it */
  handle: string;
  /** mode 'login': the page that it leads to otherwise */
  next: string;
  /** mode 'login': what the button of the OpenID Connect provider says; empty: there is none */
  sso: string;
  /** mode 'login': whether people sign in with a password of ours */
  passwords: boolean;
}

const NOTHING: Boot = {
  mode: "message",
  session: null,
  locale: "en-US",
  hostOrigins: [],
  theme: "dark",
  features: {},
  reportId: "",
  transfer: false,
  owner: "",
  prelimGroups: [],
  window: {
    cursor: 0,
    idleSeconds: 1800,
    expiresAt: 0,
    persistent: false,
    webViewObjects: false,
    anyHost: false,
  },
  message: "",
  handle: "",
  next: "",
  sso: "",
  passwords: true,
};

/** Returns what the page was started with; what the engine left out has its neutral value. */
export function readBoot(document: Document): Boot {
  const text = document.getElementById("boot")?.textContent;
  return { ...NOTHING, ...(JSON.parse(text || "{}") as Partial<Boot>) };
}
