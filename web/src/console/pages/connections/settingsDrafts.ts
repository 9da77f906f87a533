// What was typed into settings and not saved, kept in this tab: another page may be visited.
import type { Transport, Values } from "./settingsTable";

export interface SettingsDraft {
  values: Values;
  transport: Transport;
  where: string;
  secure: boolean;
  /** The version that it is based on. */
  begunOn: string;
}
const drafts = new Map<string, SettingsDraft>();

export const settingsDrafts = {
  /** Returns the draft that is based on this version; one on another is out of date. */
  get(key: string, begunOn: string): SettingsDraft | null {
    const known = drafts.get(key);
    return known?.begunOn === begunOn ? known : null;
  },
  keep: (key: string, draft: SettingsDraft): void => void drafts.set(key, draft),
  drop: (key: string): void => void drafts.delete(key),
};
