// Settings that an examination proposes, put into the form of a connection; nothing is saved.
import type { Examination, Proposal } from "../../data/api-types";
import { api } from "../../data/api";
import { PLACE } from "./fieldGroups";
import { settingsDrafts } from "./settingsDrafts";
import { transportOf, typed, valuesOf } from "./settingsTable";
import type { Form } from "./settingTypes";

/** Prepares the form of the connection, or of a new one; returns what is now proposed. */
export async function prepareSettings(id: number): Promise<Proposal | null> {
  const [form, { proposal }] = await Promise.all([
    api.get<Form>("/console/api/connections"),
    api.get<Examination>(`/console/api/examinations/${id}`),
  ]);
  if (!proposal) return null;
  const { kind, name, table, begun_on } = proposal;
  const address = String(table[PLACE[kind]]);
  settingsDrafts.keep(`${kind} ${name}`, {
    values: { ...valuesOf(form[kind], table), name },
    transport: transportOf(address),
    where: typed(address),
    secure: "tls" in table,
    begunOn: begun_on,
  });
  return proposal;
}
