// The partner specification of a connection as a file.
import { saveFile } from "../../shared/widgets/saveFile";
import { api, attempt } from "./api";
import type { ChannelKind } from "./api-types";

const SUFFIXES = { html: "html", pdf: "pdf", text: "txt" } as const;
export type SpecificationFormat = keyof typeof SUFFIXES;

export const specificationPath = (kind: ChannelKind, name: string): string =>
  `/console/api/specifications/${kind}/${encodeURIComponent(name)}`;

/** Returns the file; `query` has `version`, `compare` and `address`. */
export function specificationFile(
  kind: ChannelKind,
  name: string,
  format: SpecificationFormat,
  query = new URLSearchParams(),
): Promise<Blob | undefined> {
  const all = new URLSearchParams([...query, ["format", format]]);
  return attempt(() => api.download(`${specificationPath(kind, name)}?${all}`));
}

/** Saves the file. */
export async function downloadSpecification(
  kind: ChannelKind,
  name: string,
  format: SpecificationFormat,
  query?: URLSearchParams,
): Promise<void> {
  const file = await specificationFile(kind, name, format, query);
  if (file) saveFile(file, `${kind}-${name}.${SUFFIXES[format]}`, document);
}
