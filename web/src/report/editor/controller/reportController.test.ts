// What the page hears and is asked for while an answer is on its way.
import { expect, it, vi } from "vitest";
import { createApi } from "../../../shared/api/client";
import { createEndpoints } from "../endpoints";
import draft from "../snapshots/draft.json";
import { discard, sign } from "./reportActions";
import { ReportController } from "./reportController.svelte";

/** An engine that holds back its answers to some paths; all that it was asked stands in `asked`. */
function engine(holding: string[], told: Record<string, unknown> = {}) {
  const page = { ...draft, version: 3 };
  const asked: string[] = [];
  const held: ((status?: number) => void)[] = [];
  const api = createApi({ token: null }, (given) => {
    const path = String(given).replace("/reporting/api/session/", "");
    asked.push(path);
    const body = told[path] ?? (path === "macros" ? { macros: [] } : page);
    const answer = (status = 200) => new Response(JSON.stringify(body), { status });
    if (!holding.includes(path)) return Promise.resolve(answer());
    return new Promise((resolve) => held.push((status) => resolve(answer(status))));
  });
  const count = (path: string) => asked.filter((each) => each === path).length;
  return { controller: new ReportController(createEndpoints(api)), page, asked, held, count };
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

it("is looked at behind the save during which a change was heard", async () => {
  const { controller, page, held, count } = engine(["save"]);
  await controller.open();
  controller.report?.saver.edited();
  const saved = controller.flush();
  await turn();
  const heard = [controller.refresh(), controller.refresh()];
  await turn();
  expect([count("save"), count("report")]).toEqual([1, 1]);
  Object.assign(page, { now: page.now + 1, version: 4 });
  held.pop()?.();
  await saved;
  Object.assign(page, { now: page.now + 1, ownerName: "Somebody Else" });
  await Promise.all(heard);
  expect(controller.page?.ownerName).toBe("Somebody Else");
});

it("is signed once, however often that is asked for before the answer", async () => {
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

it("is not typed in while it is thrown away, and is unsaved as before where that fails", async () => {
  const { controller, held, count } = engine(["discard"]);
  await controller.open();
  const part = controller.report;
  part?.saver.edited();
  const discarded = controller.run(() => discard(controller), "");
  await turn();
  expect([part?.held, count("save")]).toEqual([true, 0]);
  held.pop()?.(500);
  expect(await discarded).toBe(false);
  expect([controller.view, part?.held, part?.unsaved]).toEqual(["report", false, true]);
  await controller.flush();
  expect(count("save")).toBe(1);
});

it("opens with the macros there are, so that none is typed in vain, and does without late ones", async () => {
  const { controller, held, count } = engine(["macros"]);
  const opened = controller.open();
  await turn();
  expect([count("report"), controller.page]).toEqual([1, null]);
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

it("keeps the macros that it has where they cannot be asked for", async () => {
  const holding: string[] = [];
  const { controller, held } = engine(holding, { macros: { macros: [{ trigger: ".n" }] } });
  await controller.open();
  holding.push("macros");
  const asked = controller.loadMacros();
  await turn();
  held.pop()?.(500);
  await asked;
  expect(controller.macros).toHaveLength(1);
});
