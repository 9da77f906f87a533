// The filters that lists have in common.
import type { Filter, FilterField, FilterOption } from "../../data/filter";
import { may } from "../../data/me.svelte";
import { TAGS } from "../../data/tags";
import { t } from "../../texts";
import type { Column, MoreColumns } from "../../ui/table/columns";

export const timeField = (): FilterField => ({
  name: "since",
  with: "until",
  title: t("lists.time"),
  type: "time",
  aliases: ["from", "until", "day"],
});

/** A number that a caller has, if the role permits to search for it. */
export function numberField(kinds: readonly ("order" | "patient" | "control")[]): FilterField[] {
  if (!may("find")) return [];
  const permitted = kinds.filter((kind) => kind !== "patient" || may("bodies"));
  return [
    {
      name: "number",
      with: "kind",
      title: t("lists.number"),
      type: "text",
      private: true,
      kinds: [
        { id: "", title: t("lists.kind_any") },
        ...permitted.map((id) => ({ id, title: t(`lists.kind_${id}`) })),
      ],
      aliases: ["accession", "placer", "filler", "mrn", "msh-10", "patient id"],
    },
  ];
}

/** The filter for a number of a cell, of several the first; null: the cell is empty. */
export function numberFilter(value: string, kind: "order" | "patient" | "control"): Filter | null {
  const [number = ""] = value.split(", ");
  return number ? { number: [number], kind: [kind] } : null;
}

/** A choice of these values, with the values that loaded rows have. */
export const choice = (
  name: string,
  title: string,
  values: readonly string[],
  more: Partial<FilterField> = {},
): FilterField => ({
  name,
  title,
  type: "choice",
  options: [...new Set(values)].filter(Boolean).map((id): FilterOption => ({ id, title: id })),
  ...more,
});

/** The values that rows had while the page was open: a filter offers them although it hides them. */
export class Seen {
  readonly #known = new Map<string, Set<string>>();

  /** Adds the values of rows; returns all that were seen. */
  readonly values = (name: string, found: readonly string[]): string[] => {
    const known = this.#known.get(name) ?? new Set<string>();
    for (const value of found) known.add(value);
    this.#known.set(name, known);
    return [...known].sort();
  };
}

/** Columns for each tag, and for a metadata key or an HL7 path, if the list has them. */
export function contentColumns<Row>(hasPaths: boolean, known: readonly string[]): MoreColumns<Row> {
  const permitted = may("bodies");
  const PATH = /^[A-Z][A-Z0-9]{2}-\d{1,3}(?:[.([\w)\]=-]*)$/;
  const prefixes = hasPaths ? ["tag:", "meta:", "path:"] : ["tag:"];
  return {
    offered: permitted ? TAGS.map((tag) => `tag:${tag}`).filter((id) => !known.includes(id)) : [],
    of(id): Column<Row> | null {
      const prefix = prefixes.find((one) => id.startsWith(one));
      if (!prefix || !permitted) return null;
      const title = id.slice(prefix.length);
      return { id, title, width: "minmax(7rem, 12rem)", content: true, narrow: "hidden" };
    },
    typed(text): string | null {
      if (!permitted || !hasPaths) return null;
      if (/^meta:\S/.test(text)) return text;
      const path = text.toUpperCase();
      return PATH.test(path) ? `path:${path}` : null;
    },
  };
}
