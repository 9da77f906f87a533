// How an order's tags are shown: HL7 and DICOM spellings made readable.

/** 'DOE^JANE^M' as 'DOE, JANE M'; other spellings stay as they are. */
export function personName(text: string | undefined): string {
  const [family = "", ...given] = (text ?? "").split("^").map((each) => each.trim());
  const rest = given.filter(Boolean).join(" ");
  return rest ? `${family}, ${rest}` : family;
}
