// The condition of a search in content, as a definition writes it.
export const OPERATORS = ["contains", "is", "present", "absent"] as const;
export type Operator = (typeof OPERATORS)[number];

type Test = string | { matches: string } | { present: true } | { absent: true };

/** One condition about a tag or an HL7 path; letter case matters for equal values only. */
export function conditionOf(
  place: string,
  operator: Operator,
  value: string,
): Record<string, Test> {
  return { [place.trim()]: testOf(operator, value.trim()) };
}
function testOf(operator: Operator, value: string): Test {
  switch (operator) {
    case "is":
      return value;
    case "contains":
      return { matches: value.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&") };
    case "present":
      return { present: true };
    case "absent":
      return { absent: true };
  }
}
