// Who uses the console, and what the role of this account permits.
import { api } from "./api";
import type { Me } from "./api-types";
import { zones } from "./zones.svelte";

let account = $state.raw<Me | null>(null);

export const me = {
  get account(): Me | null {
    return account;
  },
  async load(): Promise<Me> {
    account = await api.get<Me>("/console/api/me");
    if (account.zones) zones.set(account.zones);
    return account;
  },
};

/** True if the role permits it: see, find, bodies, operate, author, connect, administer, grant, audit … */
export const may = (what: string): boolean => account?.permissions.includes(what) ?? false;
