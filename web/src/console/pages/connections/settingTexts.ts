// The words for settings: labels, notes, choices; and a table of settings as names and values.
import { hasText, t } from "../../texts";
import type { Kind } from "./fieldGroups";
import type { FieldSpec, Table, Value } from "./settingsTable";

/** The text for this kind of connection if there is one, else the common text. */
function textFor(area: string, kind: Kind, name: string): string {
  const key = [`${area}.${kind}_${name}`, `${area}.${name}`].find(hasText);
  return key ? t(key) : "";
}
export const settingLabel = (kind: Kind, name: string): string =>
  textFor("setting", kind, name) || name;
export const settingNote = (kind: Kind, name: string): string =>
  textFor("setting_note", kind, name);

export function choiceLabel(field: string, choice: string): string {
  const key = `setting_choice.${field}.${choice}`;
  return hasText(key) ? t(key) : choice;
}

/** A form value in words, for the list of changes. */
export function valueText(field: FieldSpec, value: Value): string {
  if (field.kind === "yes") return t(value === true ? "settings.yes" : "settings.no");
  if (Array.isArray(value))
    return value.map((one) => choiceLabel(field.name, one)).join(", ") || "–";
  if (value === "" || value === false) return "–";
  return field.kind === "choice" ? choiceLabel(field.name, String(value)) : String(value);
}

/** The address is in the head of the page. */
const IN_THE_HEAD = ["name", "bind", "address", "ae_title", "addresses"];

/** A table of settings as names and values; what is left out has its default. */
export function settingItems(
  kind: Kind,
  table: Table,
): { label: string; value: string; mono?: boolean }[] {
  const { dicom = {}, ...others } = table;
  const objects = Object.entries(dicom as Table).map(([key, value]) => [`dicom.${key}`, value]);
  return Object.entries({ ...others, ...(Object.fromEntries(objects) as Table) })
    .filter(([name]) => !IN_THE_HEAD.includes(name))
    .map(([name, value]) => ({
      label: name === "tls" ? t("settings.tls") : settingLabel(kind, name),
      value: plainText(name, value),
    }));
}

function plainText(name: string, value: unknown): string {
  if (typeof value === "boolean") return t(value ? "settings.yes" : "settings.no");
  if (Array.isArray(value)) return value.map((one) => choiceLabel(name, String(one))).join(", ");
  if (typeof value === "object" && value !== null)
    return Object.entries(value as Table)
      .map(([key, one]) => `${key} = ${String(one)}`)
      .join("\n");
  return choiceLabel(name, String(value));
}
