// What the page says to its host, and what the host asks of it.

export interface HostBus {
  emit(event: string, payload: unknown): void;
  on(action: string, handler: (payload: unknown) => void): () => void;
  readonly embedded: boolean;
}

export function createHostBus(options: { origins: readonly string[]; window: Window }): HostBus {
  const { window, origins } = options;
  const host = window.parent !== window ? window.parent : (window.opener as Window | null);
  return {
    embedded: host !== null,
    emit(event, payload) {
      for (const origin of origins) host?.postMessage({ event, payload }, origin);
    },
    on(action, handler) {
      const listen = (message: MessageEvent<{ action?: string; payload?: unknown }>) => {
        if (message.source !== host || !origins.includes(message.origin)) return;
        if (message.data?.action === action) handler(message.data.payload);
      };
      window.addEventListener("message", listen);
      return () => window.removeEventListener("message", listen);
    },
  };
}
