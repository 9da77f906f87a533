// Changes a connection from the start page: its active settings with a few others.
import { api, attempt } from "../../data/api";

interface Known {
  table: Record<string, unknown> | null;
  in_force: { version: string } | null;
}
interface Change {
  kind: "listener" | "destination";
  name: string;
  /** The settings that change. */
  settings: Readonly<Record<string, unknown>>;
  reason: string;
  isNew?: boolean;
}

/** Saves and activates; true if it is done. `report` gets the reason why not. */
export async function saveConnection(
  { kind, name, settings, reason, isNew = false }: Change,
  report?: (text: string) => void,
): Promise<boolean> {
  const path = `/console/api/connections/${kind}/${encodeURIComponent(name)}`;
  const done = await attempt(async () => {
    const known = isNew ? null : await api.get<Known>(path);
    await api.put(path, {
      table: { ...known?.table, name, ...settings },
      begun_on: known?.in_force?.version ?? "",
      reason,
      new: isNew,
    });
    return true;
  }, report);
  return done ?? false;
}
