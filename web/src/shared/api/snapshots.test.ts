// The responses that the engine's tests have written match the app's types: the compiler compares
// them, and at run time no member is missing.
import { describe, expect, it } from "vitest";
import account from "../../../snapshots/account.json";
import boot from "../../../snapshots/boot.json";
import changes from "../../../snapshots/changes.json";
import page from "../../../snapshots/page.json";
import rows from "../../../snapshots/rows.json";
import type { Boot } from "../../report/boot";
import type { Page } from "../../report/editor/page";
import type { Profile } from "../../report/home/account.svelte";
import type { Stretch } from "../../report/worklist/rows";

/** A type as JSON files have it: literals are strings. */
type Written<T> = T extends string
  ? string
  : T extends readonly (infer E)[]
    ? readonly Written<E>[]
    : T extends object
      ? { [K in keyof T]: Written<T[K]> }
      : T;

describe("the engine's responses", () => {
  it("match the types of the app", () => {
    const stretch: Written<Stretch> = rows;
    const profile: Written<Profile> = account;
    const changed: { reportIds: string[]; cursor: number } = changes;
    const begun: Partial<Written<Pick<Boot, "mode" | "session" | "locale" | "hostOrigins">>> = boot;
    const shown: Written<Pick<Page, "reportId" | "status" | "version" | "can" | "now">> = page;

    expect(stretch.items.map((item) => item.status)).toEqual(["Ordered", "Preliminary", "Final"]);
    expect(profile.sites[0]?.role).toBe("administrator");
    expect(changed.reportIds).toHaveLength(3);
    expect(begun.mode).toBe("report");
    expect(shown.status).toBe("Draft");
  });
});
