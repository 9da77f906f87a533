// The signed-in account and its preferences, by the account cookie.
import { ApiProblem, createApi, type Api } from "../../shared/api/client";
import { serialize } from "../../shared/api/callOrder";
import { locale } from "../../shared/i18n";
import { applyTheme, type Theme } from "../../shared/theme/theme";
import { leadToLogin, signOut } from "../../shared/session/login";
import { withReauthentication } from "../../shared/session/reauthentication.svelte";

export interface SiteMembership {
  SiteID: string;
  name: string;
  timeZone: string;
  role: "user" | "administrator" | "prelim";
}

export interface Profile {
  email: string;
  name: string;
  signature: string | null;
  signatureText: string;
  password: boolean;
  AppLanguage: string;
  SpeechLanguage: string;
  theme: Theme | "";
  AutoComparePrior: boolean;
  sites: SiteMembership[];
}

export const ACCOUNT = "/reporting/api/account";
const SITE_KEY = "report.site";

/** An API client that redirects to the login page when the session has ended. */
export function accountApi(window: Window, fetcher: typeof fetch = fetch.bind(window)): Api {
  const watched: typeof fetch = async (input, init) => {
    const response = await fetcher(input, init);
    if (response.status === 401) leadToLogin(window);
    return response;
  };
  return createApi({ token: null }, withReauthentication(watched));
}

export class Account {
  readonly api: Api;
  profile = $state.raw<Profile | null>(null);
  siteId = $state("");
  failed = $state(false);

  constructor(api: Api) {
    this.api = api;
  }

  get site(): SiteMembership | undefined {
    return this.profile?.sites.find((site) => site.SiteID === this.siteId);
  }

  get administrates(): boolean {
    return this.site?.role === "administrator";
  }

  async load(): Promise<void> {
    try {
      this.#take(await this.api.get<Profile>(ACCOUNT));
      this.failed = false;
    } catch (error) {
      this.failed = !(error instanceof ApiProblem && error.status === 401);
    }
  }

  readonly #put = serialize((choices: Partial<Profile>) => this.api.put<Profile>(ACCOUNT, choices));

  async change(choices: Partial<Profile>): Promise<void> {
    this.#take(await this.#put(choices));
    applyTheme(this.profile?.theme || "dark", document);
    if (this.profile?.AppLanguage) await locale.set(this.profile.AppLanguage);
  }

  choose(siteId: string): void {
    this.siteId = siteId;
    localStorage.setItem(SITE_KEY, siteId);
  }

  async signOut(): Promise<void> {
    await signOut(window, () => this.api.post(`${ACCOUNT}/sign-out`));
  }

  #take(profile: Profile): void {
    this.profile = profile;
    const known = profile.sites.map((site) => site.SiteID);
    if (known.includes(this.siteId)) return;
    const kept = localStorage.getItem(SITE_KEY) ?? "";
    this.siteId = known.includes(kept) ? kept : (known[0] ?? "");
  }
}
