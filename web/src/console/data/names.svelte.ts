// The names of connections, definitions and sites, for the palette, the search and the filters.
import { api } from "./api";
import { may } from "./me.svelte";

export interface ConnectionName {
  kind: "listener" | "destination";
  name: string;
  address: string;
}
let connections = $state.raw<readonly ConnectionName[]>([]);
let definitions = $state.raw<readonly string[]>([]);
let asked = 0;
const FRESH_MS = 30_000;

interface Listed {
  name: string;
  address: string;
}

export const names = {
  get connections(): readonly ConnectionName[] {
    return connections;
  },
  get definitions(): readonly string[] {
    return definitions;
  },
  /** Reads the names, at most every 30 seconds; what is known stays if that fails. */
  async load(): Promise<void> {
    if (Date.now() - asked < FRESH_MS) return;
    asked = Date.now();
    await Promise.allSettled([loadConnections(), may("author") ? loadDefinitions() : null]);
  },
};

async function loadConnections(): Promise<void> {
  const found = await api.get<{ listeners: Listed[]; destinations: Listed[] }>(
    "/console/api/channels",
  );
  const of = (kind: ConnectionName["kind"], list: readonly Listed[]) =>
    list.map(({ name, address }) => ({ kind, name, address }));
  connections = [...of("listener", found.listeners), ...of("destination", found.destinations)];
}
async function loadDefinitions(): Promise<void> {
  const found = await api.get<{ definitions: { name: string }[] }>("/console/api/mappings");
  definitions = found.definitions.map((definition) => definition.name);
}
