// Short messages to the user: shown for a few seconds, and read out by screen readers.

export interface Announcement {
  id: number;
  text: string;
  kind: "good" | "bad";
}

const SHOWN_MS = 6000;
let next = 1;
let list = $state.raw<readonly Announcement[]>([]);

export const announcements = {
  get list(): readonly Announcement[] {
    return list;
  },
  add(text: string, kind: Announcement["kind"] = "good"): void {
    const id = next++;
    list = [...list.filter((announcement) => announcement.text !== text), { id, text, kind }];
    if (kind === "good") setTimeout(() => announcements.dismiss(id), SHOWN_MS);
  },
  dismiss(id: number): void {
    list = list.filter((announcement) => announcement.id !== id);
  },
};
