// Hands an accession number from one page to order tracking. URLs must not contain patient data.

let accession = "";

export const trackedOrder = {
  /** Returns the accession and clears it. */
  take(): string {
    const taken = accession;
    accession = "";
    return taken;
  },
  set(wanted: string): void {
    accession = wanted;
  },
};
