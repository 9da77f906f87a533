// The items of a menu.
import type { IconName } from "./icons";

export interface MenuAction {
  id: string;
  title: string;
  icon?: IconName | undefined;
  tone?: "plain" | "danger";
  /** Shown at the right, such as "r". */
  keys?: string | undefined;
  /** A check mark: one of several choices. */
  checked?: boolean | undefined;
  /** Why the action cannot be done now; it is shown and cannot be chosen. */
  unavailable?: string | undefined;
  href?: string | undefined;
  run?: (() => unknown) | undefined;
  items?: readonly MenuItem[];
}
export type MenuItem = MenuAction | { id: string; heading: string } | { id: string; line: true };

export const isAction = (item: MenuItem): item is MenuAction => "title" in item;
