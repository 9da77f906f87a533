// Finds the host window and decides which origins are permitted. Independent of events.

export interface Channel {
  /** Whether there is a permitted host. */
  readonly open: boolean;
  send(message: object): void;
  /** `answer`: the port for the answer, if the host has sent one. */
  listen(receive: (message: unknown, answer?: MessagePort) => void): () => void;
}

export interface ChannelOptions {
  origins: readonly string[];
  window: Window;
  anyHost?: boolean;
  objects?: boolean;
}

interface WebView {
  postMessage(message: unknown): void;
  addEventListener(kind: "message", listener: (event: { data: unknown }) => void): void;
  removeEventListener(kind: "message", listener: (event: { data: unknown }) => void): void;
}

const NO_HOST: Channel = { open: false, send: () => undefined, listen: () => () => undefined };

/** Finds the host: a frame's parent, else WebView2, else a tab's opener; else there is none. */
export function openChannel(options: ChannelOptions): Channel {
  const { window } = options;
  if (window.parent !== window) return windowChannel(window.parent, options);
  const view = (window as { chrome?: { webview?: WebView } }).chrome?.webview;
  if (view) return webViewChannel(view, options.objects ?? false);
  const opener = window.opener as Window | null;
  return opener ? windowChannel(opener, options) : NO_HOST;
}

function windowChannel(host: Window, options: ChannelOptions): Channel {
  const { window } = options;
  let allowed = hostOrigins(options);
  if (allowed.length === 0) return NO_HOST;
  return {
    open: true,
    send: (message) => {
      for (const origin of allowed) host.postMessage(message, origin);
    },
    listen(receive) {
      const listener = (event: MessageEvent<unknown>) => {
        if (event.source !== host || !allowed.includes(event.origin)) return;
        allowed = [event.origin]; // the host has this origin
        receive(event.data, event.ports?.[0]);
      };
      window.addEventListener("message", listener);
      return () => window.removeEventListener("message", listener);
    },
  };
}

/**
 * Returns the permitted origins of the host; a single one if the browser names it.
 *
 * A host outside the configured origins gives none. Without configured origins and with `anyHost`, the
 * origin that the browser names is permitted.
 */
export function hostOrigins({ origins, window, anyHost = false }: ChannelOptions): string[] {
  const named = namedOrigin(window);
  if (origins.length === 0) return anyHost && named ? [named] : [];
  if (!named) return [...origins];
  return origins.includes(named) ? [named] : [];
}

function namedOrigin(window: Window): string {
  if (window.parent !== window) {
    const ancestor = window.location.ancestorOrigins?.[0];
    if (ancestor) return ancestor === "null" ? "" : ancestor;
  }
  try {
    const origin = new URL(window.document.referrer).origin;
    // After a link inside the frame, the referrer is our own origin.
    return origin === "null" || origin === window.location.origin ? "" : origin;
  } catch {
    return "";
  }
}

/** WebView2 messages come from the native host; they have no origin. */
function webViewChannel(view: WebView, objects: boolean): Channel {
  return {
    open: true,
    send: (message) => view.postMessage(objects ? message : JSON.stringify(message)),
    listen(receive) {
      const listener = (event: { data: unknown }) => receive(event.data);
      view.addEventListener("message", listener);
      return () => view.removeEventListener("message", listener);
    },
  };
}
