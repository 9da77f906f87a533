// Formats patient names and study names for display.

/** Formats a DICOM or HL7 person name (`FAMILY^GIVEN`) with commas; other text is unchanged. */
export function displayName(name: string): string {
  const first = name.split("=")[0] ?? "";
  return first
    .split("^")
    .map((each) => each.trim())
    .filter(Boolean)
    .join(", ");
}

/** Names a study: its description, preceded by the modality unless it begins with it. */
export function studyName(tags: Readonly<Record<string, string | undefined>>): string {
  const modality = tags["Modality"] ?? "";
  const description = tags["StudyDescription"] || tags["BodyPartExamined"] || "";
  const said = description.toLocaleUpperCase().split(/\s+/).includes(modality.toLocaleUpperCase());
  return [said ? "" : modality, description].filter(Boolean).join(" ");
}
