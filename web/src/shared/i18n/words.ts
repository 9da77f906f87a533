// Catalogues as nested files and as flat lookup tables.

export interface Catalogue {
  [name: string]: string | Catalogue;
}

export type Words = Readonly<Record<string, string>>;

/** Returns a catalogue as one level of 'area.name' keys. */
export function flatten(catalogue: Catalogue, prefix = ""): Words {
  const words: Record<string, string> = {};
  for (const [name, value] of Object.entries(catalogue)) {
    if (typeof value === "string") words[prefix + name] = value;
    else Object.assign(words, flatten(value, `${prefix}${name}.`));
  }
  return words;
}
