// The session endpoints that the report page calls.
import { ApiProblem, type Api, type CallOptions } from "../../shared/api/client";
import { serialize, coalesce } from "../../shared/api/callOrder";
import type {
  BillingCodes,
  Choices,
  ExportKind,
  Finding,
  History,
  Macro,
  Page,
  Presence,
  Prior,
  PriorSummary,
  ReportFile,
  Share,
  Template,
} from "./page";
import type { ReportDocument } from "./text/document";

const HOME = "/reporting/api/session/";
/** Time limits in milliseconds. A save that fails is tried again, so its limit is short. */
const SAVE_WITHIN = 8_000;
const SIGN_WITHIN = 15_000;
const LOAD_WITHIN = 10_000;
const EXPORT_WITHIN = 60_000;

/** Calls the service; returns the new state of the page if the response contains it. */
export type PageAction = () => Promise<Page | undefined>;

export type Endpoints = ReturnType<typeof createEndpoints>;

export function createEndpoints(api: Api) {
  const get = <T>(path: string) => api.get<T>(HOME + path);
  const post = <T = Page>(path: string, body: object = {}, within?: number) =>
    api.post<T>(HOME + path, body, within === undefined ? {} : { within });

  /** Returns a file and the name that the service gives it. */
  async function take(path: string): Promise<{ blob: Blob; name: string }> {
    const response = await api.raw(HOME + path, { signal: AbortSignal.timeout(EXPORT_WITHIN) });
    const disposition = response.headers.get("Content-Disposition") ?? "";
    const name = decodeURIComponent(/filename\*=UTF-8''([^;]+)/.exec(disposition)?.[1] ?? "");
    if (response.ok) return { blob: await response.blob(), name };
    const problem = (await response.json().catch(() => ({}))) as Record<string, string>;
    throw new ApiProblem(response.status, problem["code"] ?? "", problem["detail"] ?? "");
  }

  return {
    load: () => api.get<Page>(`${HOME}report`, { within: LOAD_WITHIN }),
    /** The first load of a page, which names its tab. */
    open: (tab: string) => post("open", { tab }, LOAD_WITHIN),
    takeOver: () => post("open", { takeOver: true }),
    returnToUnread: () => post("unread", {}),
    // Concurrent calls share one request, so that saving does not wait behind them.
    presence: coalesce(() => api.post<Presence>(`${HOME}presence`, {}, { within: LOAD_WITHIN })),
    handedOver: () => post<undefined>("handed-over", {}, LOAD_WITHIN),
    leave: () => api.post<undefined>(`${HOME}leave`, {}, { keepalive: true }),
    save: (version: number, document: ReportDocument, template: number | null) =>
      post("save", { version, document, ...(template === null ? {} : { template }) }, SAVE_WITHIN),
    /** Continues after the page has closed; longer texts than browsers permit stay in the journal. */
    saveAndLeave: (version: number, document: ReportDocument, template: number | null) => {
      const kept = template === null ? {} : { template };
      const body = { version, document, leaving: true, ...kept };
      return api.post<Page>(`${HOME}save`, body, { keepalive: true });
    },
    checks: (addendum = false) =>
      api.get<{ findings: Finding[] }>(`${HOME}checks${addendum ? "?addendum=true" : ""}`, {
        within: LOAD_WITHIN,
      }),
    /** Requests run in order and continue after the page has closed, so the last choice is kept. */
    choose: serialize((choices: Choices) =>
      api.put<undefined>(`${HOME}choices`, choices, { keepalive: true }),
    ),
    sign: (version: number) => post("sign", { version }, SIGN_WITHIN),
    signNow: (version: number) => post("sign-now", { version }, SIGN_WITHIN),
    unsign: () => post("unsign"),
    prelim: (version: number, prelimGroup: string, prelimTag: string) =>
      post("prelim", { version, prelimGroup, prelimTag }),
    discard: () => post<undefined>("discard"),
    createAddendum: () => post("addendum/create"),
    saveAddendum: (version: number, document: ReportDocument, options: CallOptions = {}) =>
      api.post<Page>(
        `${HOME}addendum/save`,
        { version, document },
        { within: SAVE_WITHIN, ...options },
      ),
    signAddendum: (version: number) => post("addendum/sign", { version }, SIGN_WITHIN),
    releaseAddendum: () => post("addendum/sign-now"),
    unsignAddendum: () => post("addendum/unsign"),
    cancelAddendum: () => post("addendum/cancel"),
    templates: () => get<{ templates: Template[] }>("templates"),
    mapFindings: (number: number, findings: string) =>
      post<{ document: ReportDocument }>(`templates/${number}/map`, { findings }),
    applyFindings: (document: ReportDocument, findings: string) =>
      post<{ document: ReportDocument }>("findings", { document, findings }),
    macros: () => get<{ macros: Macro[] }>("macros"),
    setMacro: (trigger: string, name: string, text: string) =>
      api.put<undefined>(`${HOME}macros/${encodeURIComponent(trigger)}`, { name, text }),
    deleteMacro: (trigger: string) =>
      api.delete<undefined>(`${HOME}macros/${encodeURIComponent(trigger)}`),
    priors: () => get<{ priors: PriorSummary[] }>("priors"),
    prior: (reportId: string) => get<Prior>(`priors/${reportId}`),
    priorPdf: async (reportId: string, version: number, file: number) =>
      (await take(`priors/${reportId}/versions/${version}/pdf/${file}`)).blob,
    history: () => get<History>("history"),
    files: () => get<{ files: ReportFile[] }>("files"),
    image: async (id: number) => (await take(`files/${id}`)).blob,
    exportAs: (kind: ExportKind, zone: string) =>
      take(`export/${kind}?timeZone=${encodeURIComponent(zone)}`),
    billing: () => get<{ billingCode: BillingCodes | null }>("billing"),
    generateBilling: () => post<Page & { billingCode: BillingCodes }>("billing"),
    shares: () => get<{ shares: Share[] }>("shares"),
    share: (expiresSeconds?: number) =>
      post<Page & { share: { link: string; expiresAt: string } }>(
        "shares",
        expiresSeconds ? { expiresSeconds } : {},
      ),
    revokeShare: (id: number) => post(`shares/${id}/revoke`),
  };
}
