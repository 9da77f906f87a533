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
    zones.set(account.zones);
    return account;
  },
  /** Says how many first steps are left. */
  setLeft(left: number): void {
    if (account?.start && account.start.left !== left) account = { ...account, start: { left } };
  },
};

/** True if the role permits it: see, find, bodies, operate, author, connect, administer, grant, audit … */
export const may = (what: string): boolean => account?.permissions.includes(what) ?? false;
