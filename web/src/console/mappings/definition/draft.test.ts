// Input in a definition whose text is about to be replaced.
import { beforeAll, expect, it, vi } from "vitest";
import { render, waitFor, fireEvent, screen } from "@testing-library/svelte";
import { addTexts } from "../../texts";
import mapping from "../../texts/mapping.json";
import Compare from "./Compare.svelte";
import { DefinitionDraft } from "./draft.svelte";

beforeAll(() => addTexts(mapping));

type Answer = (body: unknown, status?: number) => void;
const OPENED = {
  sources: { "orders.yaml": "a" },
  newer: {},
  used: {},
  others: [],
  held: [],
  rules: [],
};
const FOUND = { ...OPENED, kind: "orders", issues: [], needed: [], in_force: null, draft: null };

/** A service whose responses to some requests wait; `requests` lists all requests. */
function service(holding: RegExp, respond: (request: string) => unknown = () => FOUND) {
  const held = new Map<string, Answer>();
  const requests: string[] = [];
  vi.stubGlobal("fetch", (path: string, init: RequestInit = {}) => {
    const request = `${init.method ?? "GET"} ${path.replace(/^.*\/mappings?\/orders/, "")}`;
    requests.push(request);
    const answer = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });
    if (!holding.test(request)) return Promise.resolve(answer(respond(request)));
    return new Promise((resolve) =>
      held.set(request, (body, status) => resolve(answer(body, status))),
    );
  });
  return { held, requests };
}

it("is locked while a draft is discarded, and saved if that fails", async () => {
  const { held, requests } = service(/^DELETE/);
  const draft = new DefinitionDraft("orders");
  await draft.open();
  draft.edit("orders.yaml", "ab");
  const discarded = draft.discard();
  await waitFor(() => expect(held.size).toBe(1));
  expect(draft.locked).toBe(true);
  held.get("DELETE /draft")?.({ detail: "not now" }, 500);
  await discarded;
  await waitFor(() => expect(requests).toContain("PUT /draft"));
  expect([draft.locked, draft.textOf("orders.yaml")]).toEqual([false, "ab"]);
});

it("is saved before a rollback; without saving there is no rollback", async () => {
  const { held, requests } = service(/^PUT/);
  const draft = new DefinitionDraft("orders");
  await draft.open();
  draft.edit("orders.yaml", "ab");
  const action = vi.fn(() => Promise.resolve());
  const changed = draft.change(action);
  await waitFor(() => expect(held.size).toBe(1));
  held.get("PUT /draft")?.({ detail: "not now" }, 500);
  await changed;
  expect(action).not.toHaveBeenCalled();
  expect(draft.textOf("orders.yaml")).toBe("ab");
  expect(requests.filter((request) => request === "GET ")).toHaveLength(1);
});

it("is compared with the version selected last, even if another one arrives later", async () => {
  const row = (version: string) => ({ version, at: 0, actor: "a", origin: "console", reason: "" });
  const rows = ["v1", "v2", "v3"].map(row);
  const { held } = service(/versions\/v[23]/, (request) =>
    request.endsWith("history") ? { rows } : { files: { "orders.yaml": "one\n" } },
  );
  const draft = new DefinitionDraft("orders");
  const { container } = render(Compare, { draft });
  await waitFor(() => expect(held.size).toBe(1));
  await fireEvent.change(screen.getByLabelText("Before"), { target: { value: "v3" } });
  await waitFor(() => expect(held.size).toBe(2));
  held.get("GET /versions/v3")?.({ files: { "third.yaml": "three\n" } });
  await waitFor(() => expect(container.textContent).toContain("third.yaml"));
  held.get("GET /versions/v2")?.({ files: { "second.yaml": "two\n" } });
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(container.textContent).toContain("third.yaml");
});
