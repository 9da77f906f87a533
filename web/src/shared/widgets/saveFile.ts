// Saves fetched data as a file.

const REVOKE_AFTER_MS = 60_000;

/** Starts a download. The browser reads the object URL later, so it is revoked after a minute. */
export function saveFile(blob: Blob, name: string, document: Document): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), REVOKE_AFTER_MS);
}
