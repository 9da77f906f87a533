// Splits a field into repetitions and components with the paths that the service uses: PID-3[2].1.

export interface Part {
  /** Empty for a separator. */
  place: string;
  text: string;
  state: string;
}

/** Returns the fields for which the service named repetitions or components. */
export function dividedFields(places: readonly string[]): Set<string> {
  const fields = places.map((place) => /^(\w+(?:\[\d+\])?-\d+)[.[]/.exec(place)?.[1]);
  return new Set(fields.filter((field) => field !== undefined));
}

/** Splits a field; `marks` is MSH-2, `state` returns whether a path is used. */
export function partsOfField(
  field: string,
  text: string,
  marks: string,
  state: (place: string) => string,
): Part[] {
  const [join = "", repeat = ""] = marks;
  const separator = (mark: string): Part => ({ place: "", text: mark, state: "" });
  return split(text, repeat).flatMap((repetition, at) => {
    const whole = `${field}[${at + 1}]`;
    const name = at ? whole : field;
    const parts = split(repetition, join);
    const undivided = parts.length === 1 || state(whole) !== "";
    const made: Part[] = undivided
      ? [{ place: whole, text: repetition, state: state(whole) }]
      : parts.flatMap((part, nth) => {
          const place = `${name}.${nth + 1}`;
          const one = { place, text: part, state: state(place) };
          return nth ? [separator(join), one] : [one];
        });
    return at ? [separator(repeat), ...made] : made;
  });
}

const split = (text: string, mark: string) => (mark ? text.split(mark) : [text]);
