// The proof of identity that a sensitive action requires, for the dialog of each app.
import { ApiProblem, type Api } from "../api/client";
import { reauthentication } from "./reauthentication.svelte";

const ACCOUNT = "/reporting/api/account";

export class Confirmation {
  password = $state("");
  /** The one-time code, if the account has one. */
  code = $state("");
  /** False: the identity provider confirms. */
  hasPassword = $state(true);
  problem = $state("");
  busy = $state(false);
  readonly #api: Api;
  readonly #unreachable: string;

  constructor(api: Api, unreachable: string) {
    this.#api = api;
    this.#unreachable = unreachable;
  }

  async load(): Promise<void> {
    try {
      const account = await this.#api.get<{ password?: boolean }>(ACCOUNT);
      this.hasPassword = account.password !== false;
    } catch (error) {
      this.#show(error);
    }
  }

  /** Confirms and closes the dialog, or says why not; what was typed goes in either case. */
  async confirm(): Promise<void> {
    const code = this.code.trim();
    const body = { password: this.password, ...(code ? { code } : {}) };
    this.problem = "";
    this.busy = true;
    try {
      await this.#api.post(`${ACCOUNT}/confirm`, body);
      reauthentication.finish(true);
    } catch (error) {
      this.#show(error);
    }
    this.busy = false;
    this.password = this.code = "";
  }

  #show(error: unknown): void {
    const isAnswer = error instanceof ApiProblem && error.status !== 0;
    this.problem = isAnswer ? error.detail || error.code : this.#unreachable;
  }
}
