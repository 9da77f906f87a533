// Formats study names for display.

/** Names a study: its description, preceded by the modality unless it begins with it. */
export function studyName(tags: Readonly<Record<string, string | undefined>>): string {
  const modality = tags["Modality"] ?? "";
  const description = tags["StudyDescription"] || tags["BodyPartExamined"] || "";
  const said = description.toLocaleUpperCase().split(/\s+/).includes(modality.toLocaleUpperCase());
  return [said ? "" : modality, description].filter(Boolean).join(" ");
}
