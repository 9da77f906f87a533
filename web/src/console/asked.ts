// What one page hands to another and no address may hold: the accession that is asked for.

let accession = "";

export const asked = {
  /** Gives what was handed over, once. */
  take(): string {
    const given = accession;
    accession = "";
    return given;
  },
  give(wanted: string): void {
    accession = wanted;
  },
};
