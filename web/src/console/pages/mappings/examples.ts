// Examples of a definition, as their endpoint lists them.

export interface Example {
  id: number;
  label: string;
  listener: string;
  added_at: number;
  added_by: string;
  state: "same" | "differs";
  differences: { field: string; before: string; after: string }[];
}

/** The name of a field: what stands before it says only which order of the message it is of. */
export const fieldName = (field: string): string =>
  field.replace(/^(ORC\[\d+\])\.clinical_info\./, (_, order: string) =>
    order === "ORC[1]" ? "" : `${order} `,
  );
