// Settings that an examination proposes, put into the form of a destination; nothing is saved.
import type { Examination } from "../../data/api-types";
import { api } from "../../data/api";
import { settingsDrafts } from "./settingsDrafts";
import { transportOf, typed, valuesOf } from "./settingsTable";
import type { Connection, Form } from "./settingTypes";

/** The entries of `replies` that results say would fit, as they are typed. */
export function fittingReplies(found: Examination): string[] {
  const all = Object.assign({}, ...found.results.map((one) => one.replies)) as Record<
    string,
    string
  >;
  return Object.entries(all).map(([code, action]) => `${code} = ${action}`);
}

/** Returns the lines of `replies` with those that it does not have. */
export function withReplies(before: string, fitting: readonly string[]): string {
  const lines = before.split("\n").filter((line) => line.trim());
  const codes = new Set(lines.map((line) => line.split("=")[0]?.trim()));
  return [...lines, ...fitting.filter((line) => !codes.has(line.split("=")[0]?.trim()))].join("\n");
}

/** Prepares the form of the examined destination, or of a new one at the address. */
export async function prepareSettings(found: Examination): Promise<void> {
  const fitting = fittingReplies(found);
  if (!found.destination) {
    settingsDrafts.keep("destination ", {
      values: { replies: fitting.join("\n") },
      transport: "mllp",
      where: found.address,
      secure: found.tls !== "none",
      begunOn: "",
    });
    return;
  }
  const [form, known] = await Promise.all([
    api.get<Form>("/console/api/connections"),
    api.get<Connection>(
      `/console/api/connections/destination/${encodeURIComponent(found.destination)}`,
    ),
  ]);
  const table = known.table ?? {};
  const address = typeof table["address"] === "string" ? table["address"] : found.address;
  const values = valuesOf(form.destination, table);
  const replies = withReplies(String(values["replies"] ?? ""), fitting);
  settingsDrafts.keep(`destination ${found.destination}`, {
    values: { ...values, replies },
    transport: transportOf(address),
    where: typed(address),
    secure: "tls" in table,
    begunOn: known.in_force?.version ?? "",
  });
}
