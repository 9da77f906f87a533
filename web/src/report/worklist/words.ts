// How an order's tags are shown: HL7 and DICOM spellings made readable.

/** 'DOE^JANE^M' as 'DOE, JANE M'; other spellings stay as they are. */
export function personName(text: string | undefined): string {
  const [family = "", ...given] = (text ?? "").split("^").map((each) => each.trim());
  const rest = given.filter(Boolean).join(" ");
  return rest ? `${family}, ${rest}` : family;
}

/** A date of HL7, DICOM or ISO 8601 by the language's own habit; others stay as they are. */
export function studyDate(text: string | undefined, language: string): string {
  const found = /^(\d{4})-?(\d{2})-?(\d{2})(?:[T ]?(\d{2}):?(\d{2}))?/.exec(text ?? "");
  if (!found) return text ?? "";
  const [, year, month, day] = found;
  const date = new Date(Number(year), Number(month) - 1, Number(day));
  if (date.getMonth() !== Number(month) - 1) return text ?? "";
  return new Intl.DateTimeFormat(language, { dateStyle: "medium" }).format(date);
}
