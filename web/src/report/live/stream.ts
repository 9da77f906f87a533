// What the engine tells an open page: looks at the report's state again and again.
import type { Api } from "../../shared/api/client";

export interface LiveStream {
  on(kind: string, handler: (data: unknown) => void): () => void;
  close(): void;
}

export function createLiveStream(api: Api, every = 10_000): LiveStream {
  const handlers = new Map<string, Set<(data: unknown) => void>>();
  const timer = setInterval(() => {
    const told = handlers.get("report");
    if (!told?.size) return;
    api.get("/reporting/api/session/report").then(
      (page) => told.forEach((handler) => handler(page)),
      () => undefined,
    );
  }, every);
  return {
    on(kind, handler) {
      const set = handlers.get(kind) ?? new Set();
      handlers.set(kind, set.add(handler));
      return () => set.delete(handler);
    },
    close: () => clearInterval(timer),
  };
}
