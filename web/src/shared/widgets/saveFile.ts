// Files of this computer, out of what a page has fetched.

const READ_WITHIN = 60_000;

/** Hands a file to the browser's downloads, which read it when they come to it. */
export function saveFile(blob: Blob, name: string, document: Document): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), READ_WITHIN);
}
