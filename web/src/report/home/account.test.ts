import { describe, expect, it } from "vitest";
import { ApiProblem, createApi } from "../../shared/api/client";
import { Account, type Profile } from "./account.svelte";

const SITES = [{ SiteID: "S", name: "Site", timeZone: "UTC", role: "user" }] as const;
const PROFILE = { email: "rea@site.test", sites: [...SITES] } as unknown as Profile;

describe("the account", () => {
  it("is loaded when the engine is reachable again", async () => {
    const answers = [() => Promise.reject(new ApiProblem(0, "unreachable", "")), () => PROFILE];
    const api = { ...createApi({ token: null }), get: () => answers.shift()?.() as never };
    const account = new Account(api);
    await account.load();
    expect(account.failed).toBe(true);
    await account.load();
    expect([account.failed, account.site?.name]).toEqual([false, "Site"]);
  });
});
