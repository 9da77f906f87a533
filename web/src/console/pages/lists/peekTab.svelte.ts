// The part that panels show: it stays while a person moves from row to row.

export type PeekTab = "summary" | "content" | "reply";
let shown = $state<PeekTab>("summary");

export const peekTab = {
  get shown(): PeekTab {
    return shown;
  },
  show(tab: PeekTab): void {
    shown = tab;
  },
};
