// The last items that were opened in this tab; kept in memory only.
import { untrack } from "svelte";

export interface OpenedItem {
  title: string;
  href: string;
}
const KEPT = 8;
let list = $state.raw<readonly OpenedItem[]>([]);

export const opened = {
  get list(): readonly OpenedItem[] {
    return list;
  },
  add(item: OpenedItem): void {
    const others = untrack(() => list).filter((one) => one.href !== item.href);
    list = [item, ...others].slice(0, KEPT);
  },
  forget(): void {
    list = [];
  },
};
