// Loads test messages: stored messages, pasted text, or files. Bytes are sent as base64.
import { api, attempt } from "../data/api";
import type { SampleMessage } from "./types";

interface SampleResponse {
  messages: SampleMessage[];
}

/** Loads the last stored messages that the definition applies to. */
export const lastStored = (path: string, last: number) => load(`${path}/stored`, { last });

/** Loads the stored messages with a control ID (MSH-10). */
export const byControlId = (path: string, control: string) => load(`${path}/stored`, { control });

/** Splits a pasted text into messages. */
export const pasted = (text: string) => load("/console/api/mapping-material", { text });

/** Splits files into messages; the service detects their character set. */
export async function uploaded(files: Iterable<File> | null): Promise<SampleMessage[] | null> {
  const all = await Promise.all([...(files ?? [])].map(base64));
  return all.length ? load("/console/api/mapping-material", { files: all }) : [];
}

export async function base64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

async function load(path: string, body: object): Promise<SampleMessage[] | null> {
  const answer = await attempt(() => api.post<SampleResponse>(path, body));
  return answer?.messages ?? null;
}
