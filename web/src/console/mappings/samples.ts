// Messages to try on: stored ones by number or age, pasted text, files. Bytes travel as base64.
import { api, attempt } from "../api";
import type { Message } from "./types";

interface Answer {
  messages: Message[];
}

/** The last stored messages that a definition concerns. */
export const lastOnes = (path: string, last: number) => found(`${path}/stored`, { last });

/** Stored messages with a control id (MSH-10). */
export const byControlId = (path: string, control: string) => found(`${path}/stored`, { control });

/** The messages of a text that somebody pasted. */
export const pasted = (text: string) => found("/console/api/mapping-material", { text });

/** The messages of files, their bytes as they are. */
export async function uploaded(files: FileList | null): Promise<Message[] | null> {
  const all = await Promise.all([...(files ?? [])].map(base64));
  return all.length ? found("/console/api/mapping-material", { files: all }) : [];
}

export async function base64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

async function found(path: string, body: object): Promise<Message[] | null> {
  const answer = await attempt(() => api.post<Answer>(path, body));
  return answer?.messages ?? null;
}
