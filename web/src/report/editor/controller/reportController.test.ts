// Events and actions of the page while a request is pending.
import { expect, it, vi } from "vitest";
import { createApi } from "../../../shared/api/client";
import { createEndpoints } from "../endpoints";
import type { Page } from "../page";
import draft from "../snapshots/draft.json";
import { discard, sign } from "./reportActions";
import { ReportController } from "./reportController.svelte";

/** An engine whose responses to some paths wait; `requests` lists all requests. */
function engine(holding: string[], responses: Record<string, unknown> = {}) {
  const page = { ...draft, version: 3 };
  const requests: string[] = [];
  const held: ((status?: number) => void)[] = [];
  const api = createApi({ token: null }, (given) => {
    const path = String(given).replace("/reporting/api/session/", "");
    requests.push(path);
    const body = responses[path] ?? (path === "macros" ? { macros: [] } : page);
    const answer = (status = 200) => new Response(JSON.stringify(body), { status });
    if (!holding.includes(path)) return Promise.resolve(answer());
    return new Promise((resolve) => held.push((status) => resolve(answer(status))));
  });
  const count = (path: string) => requests.filter((request) => request === path).length;
  return { controller: new ReportController(createEndpoints(api)), page, requests, held, count };
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

it("is loaded after a pending save if a change arrives during it", async () => {
  const { controller, page, held, count } = engine(["save"]);
  await controller.open();
  controller.report?.saver.edited();
  const saved = controller.flush();
  await turn();
  const refreshed = [controller.refresh(), controller.refresh()];
  await turn();
  expect([count("save"), count("report")]).toEqual([1, 0]);
  Object.assign(page, { now: page.now + 1, version: 4 });
  held.pop()?.();
  await saved;
  Object.assign(page, { now: page.now + 1, ownerName: "Another User" });
  await Promise.all(refreshed);
  expect(controller.page?.ownerName).toBe("Another User");
});

it("keeps the newer version if an older state arrives with a later time", async () => {
  const { controller, page } = engine([]);
  await controller.open();
  const loaded = controller.page as Page;
  const older = { ...loaded, version: 4, now: page.now + 2 };
  const newer = { ...loaded, version: 5, now: page.now + 1 };
  controller.apply(older);
  controller.apply(newer);
  expect(controller.page?.version).toBe(5);
  controller.apply(older);
  expect(controller.page?.version).toBe(5);
});

it("is signed once, even if Sign is repeated before the response", async () => {
  const { controller, held, count } = engine(["sign"], { checks: { findings: [] } });
  await controller.open();
  const both = [sign(controller), sign(controller)];
  await turn();
  expect(count("sign")).toBe(1);
  held.pop()?.();
  await Promise.all(both);
  void sign(controller).catch(() => undefined);
  await turn();
  expect(count("sign")).toBe(2);
});

it("is locked while it is discarded, and is still unsaved if that fails", async () => {
  const { controller, held, count } = engine(["discard"]);
  await controller.open();
  const part = controller.report;
  part?.saver.edited();
  const discarded = controller.run(() => discard(controller), "");
  await turn();
  expect([part?.discarding, count("save")]).toEqual([true, 0]);
  held.pop()?.(500);
  expect(await discarded).toBe(false);
  expect([controller.view, part?.discarding, part?.unsaved]).toEqual(["report", false, true]);
  await controller.flush();
  expect(count("save")).toBe(1);
});

it("opens after the macros are loaded, and without them if they are late", async () => {
  const { controller, held, count } = engine(["macros"]);
  const opened = controller.open();
  await turn();
  expect([count("open"), controller.page]).toEqual([1, null]);
  held.pop()?.();
  await opened;
  expect(controller.view).toBe("report");
  const late = engine(["macros"]).controller;
  vi.useFakeTimers();
  const waited = late.open();
  await vi.advanceTimersByTimeAsync(2000);
  await waited;
  vi.useRealTimers();
  expect(late.view).toBe("report");
});

it("keeps its macros if they cannot be loaded", async () => {
  const holding: string[] = [];
  const { controller, held } = engine(holding, { macros: { macros: [{ trigger: ".n" }] } });
  await controller.open();
  holding.push("macros");
  const requests = controller.loadMacros();
  await turn();
  held.pop()?.(500);
  await requests;
  expect(controller.macros).toHaveLength(1);
});

it("does not claim the report again after it was left, until it is shown again", async () => {
  const { controller, count } = engine([]);
  await controller.open();
  controller.leave();
  await Promise.all([controller.refresh(), controller.keepPresent()]);
  expect([count("leave"), count("report"), count("presence")]).toEqual([1, 0, 0]);
  await controller.shownAgain();
  expect(count("presence")).toBe(1);
});
