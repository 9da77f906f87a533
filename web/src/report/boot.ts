// The boot data that the service embeds in the page: <script type="application/json" id="boot">.

export type Mode = "report" | "waiting" | "worklist" | "login" | "share" | "message";

export interface PrelimGroup {
  name: string;
  tags: string[];
}

/** The window of the page. */
export interface WindowFacts {
  /** The start cursor of the live stream. */
  cursor: number;
  idleSeconds: number;
  /** Milliseconds since the epoch. */
  expiresAt: number;
  /** Whether the window follows launches with SyncLaunch. */
  persistent: boolean;
  webViewObjects: boolean;
  /** Without configured host origins, the embedding page is the host. */
  anyHost: boolean;
}

export interface Boot {
  mode: Mode;
  /** The session token, sent as bearer; null if the account cookie is used. */
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
  /** mode 'login': the link to open afterwards */
  handle: string;
  /** mode 'login': the page to open otherwise */
  next: string;
  /** mode 'login': the label of the OpenID Connect button; empty: no provider */
  sso: string;
  /** mode 'login': whether local passwords are enabled */
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

/** Returns the boot data; missing members have neutral values. */
export function readBoot(document: Document): Boot {
  const text = document.getElementById("boot")?.textContent;
  return { ...NOTHING, ...(JSON.parse(text || "{}") as Partial<Boot>) };
}
