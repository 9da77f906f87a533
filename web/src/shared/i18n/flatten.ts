// Catalogues as nested files and as flat lookup tables.

export interface Catalogue {
  [name: string]: string | Catalogue;
}

export type FlatCatalogue = Readonly<Record<string, string>>;

/** Returns a catalogue as one level of 'area.name' keys. */
export function flatten(catalogue: Catalogue, prefix = ""): FlatCatalogue {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(catalogue)) {
    if (typeof value === "string") texts[prefix + name] = value;
    else Object.assign(texts, flatten(value, `${prefix}${name}.`));
  }
  return texts;
}
