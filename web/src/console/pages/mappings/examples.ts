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
