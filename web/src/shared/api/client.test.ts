// @vitest-environment node
import { describe, expect, it } from "vitest";
import { ApiProblem, createApi } from "./client";

const answering = (status: number, body: unknown, requests: Request[] = []) =>
  (async (path: string, init: RequestInit) => {
    requests.push(new Request(new URL(path, "http://localhost"), init));
    return new Response(status === 204 ? null : JSON.stringify(body), { status });
  }) as typeof fetch;

describe("the API client", () => {
  it("sends the session as the bearer, and a body as JSON", async () => {
    const requests: Request[] = [];
    const api = createApi({ token: "secret" }, answering(200, { version: 2 }, requests));

    expect(await api.post("/save", { text: "x" })).toEqual({ version: 2 });
    expect(requests[0]?.headers.get("authorization")).toBe("Bearer secret");
    expect(await requests[0]?.json()).toEqual({ text: "x" });
  });

  it("sends no token if there is none, so that the cookie applies", async () => {
    const requests: Request[] = [];
    await createApi({ token: null }, answering(200, {}, requests)).get("/x");
    expect(requests[0]?.headers.has("authorization")).toBe(false);
  });

  it("converts a refusal to its code and detail", async () => {
    const api = createApi(
      { token: null },
      answering(409, { code: "version_conflict", detail: "d" }),
    );
    const problem = await api.get("/x").catch((error: unknown) => error);
    expect(problem).toBeInstanceOf(ApiProblem);
    expect(problem).toMatchObject({ status: 409, code: "version_conflict", detail: "d" });
  });

  it("reports an unreachable engine with status 0", async () => {
    const api = createApi({ token: null }, () => Promise.reject(new TypeError("failed")));
    await expect(api.get("/x")).rejects.toMatchObject({ status: 0, code: "unreachable" });
  });

  it("returns no value for a response without a body", async () => {
    expect(await createApi({ token: null }, answering(204, null)).post("/x")).toBeUndefined();
  });

  it("ends a call without a response as a timeout, before and within the body", async () => {
    const aborted = (signal: AbortSignal) =>
      new Promise<never>((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason as Error)),
      );
    const silent = ((_path: string, init: RequestInit) =>
      aborted(init.signal as AbortSignal)) as typeof fetch;
    const broken = ((_path: string, init: RequestInit) =>
      Promise.resolve({
        ok: true,
        text: () => aborted(init.signal as AbortSignal),
      })) as unknown as typeof fetch;
    for (const fetcher of [silent, broken]) {
      const call = createApi({ token: null }, fetcher).post("/x", {}, { within: 5 });
      await expect(call).rejects.toMatchObject({ status: 0, code: "timeout" });
    }
  });
});
