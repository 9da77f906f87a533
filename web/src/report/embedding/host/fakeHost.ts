// A fake browser window with a host, for the tests of this folder.

export interface Posted {
  message: Record<string, unknown>;
  origin: string;
}

export interface FakeWindow {
  window: Window;
  posted: Posted[];
  /** Delivers a message as the browser does. */
  deliver(data: unknown, origin: string, source?: unknown, ports?: MessagePort[]): void;
  host: object;
}

export interface FakeOptions {
  kind?: "frame" | "tab" | "alone";
  ancestor?: string;
  referrer?: string;
  webview?: object;
}

export function fakeWindow(options: FakeOptions = {}): FakeWindow {
  const { kind = "frame", ancestor, referrer = "", webview } = options;
  const posted: Posted[] = [];
  const listeners = new Set<(event: unknown) => void>();
  const host = {
    postMessage: (message: Record<string, unknown>, origin: string) =>
      posted.push({ message, origin }),
  };
  const made: Record<string, unknown> = {
    opener: kind === "tab" ? host : null,
    document: { referrer },
    location: {
      origin: "https://reports.test",
      ...(ancestor === undefined ? {} : { ancestorOrigins: [ancestor] }),
    },
    addEventListener: (_: string, listener: (event: unknown) => void) => listeners.add(listener),
    removeEventListener: (_: string, listener: (event: unknown) => void) =>
      listeners.delete(listener),
  };
  made["parent"] = kind === "frame" ? host : made;
  if (webview) made["chrome"] = { webview };
  return {
    window: made as unknown as Window,
    posted,
    host,
    deliver: (data, origin, source = host, ports = []) =>
      listeners.forEach((listener) => listener({ data, origin, source, ports })),
  };
}
