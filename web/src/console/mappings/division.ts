// Divides a field into its repetitions and components, as the server names them: PID-3[2].1.

export interface Part {
  /** Empty for a separator. */
  place: string;
  text: string;
  state: string;
}

/** The fields of which the server named repetitions or components. */
export function dividedBy(places: readonly string[]): Set<string> {
  const fields = places.map((place) => /^(\w+(?:\[\d+\])?-\d+)[.[]/.exec(place)?.[1]);
  return new Set(fields.filter((field) => field !== undefined));
}

/** Divides a field; `marks` is MSH-2, `state` says whether a place is used. */
export function divisionOf(
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
