// Short messages about what has happened. Success goes after six seconds; an error stays.

import { untrack } from "svelte";

export interface Toast {
  text: string;
  tone?: "ok" | "amber" | "red" | "info";
  action?: { label: string; run: () => unknown };
  /** Stays until it is closed. */
  keep?: boolean;
}
export interface ShownToast extends Toast {
  id: number;
}

const SHOWN_MS = 6000;
const AT_MOST = 3;
let list = $state.raw<readonly ShownToast[]>([]);
let next = 1;
let paused = false;
const timers = new Map<number, ReturnType<typeof setTimeout>>();

function start(toast: ShownToast): void {
  if (toast.keep || toast.tone === "red") return;
  timers.set(
    toast.id,
    setTimeout(() => toasts.dismiss(toast.id), SHOWN_MS),
  );
}

export const toasts = {
  get list(): readonly ShownToast[] {
    return list;
  },
  dismiss(id: number): void {
    clearTimeout(timers.get(id));
    timers.delete(id);
    list = list.filter((toast) => toast.id !== id);
  },
  /** While the pointer or the focus is on the toasts, none of them goes. */
  pause(): void {
    paused = true;
    for (const timer of timers.values()) clearTimeout(timer);
    timers.clear();
  },
  resume(): void {
    if (!paused) return;
    paused = false;
    for (const toast of list) start(toast);
  },
};

/** Shows a toast. The same text replaces the one that is shown. */
export function toast(toast: Toast): void {
  untrack(() => {
    const shown = { ...toast, id: next++ };
    for (const other of list.filter((one) => one.text === toast.text)) toasts.dismiss(other.id);
    list = [...list, shown].slice(-AT_MOST);
    if (!paused) start(shown);
  });
}
