// A specification as a document of sections, with what changed since a version in its places.
import type { Specification, SpecificationChange } from "../../data/api-types";
import { t } from "../../texts";

export type Mark = "same" | "added" | "removed";
export interface Cell {
  text: string;
  /** What it was in the version that is compared, if that differs. */
  before?: string | undefined;
  mono?: boolean;
}
export interface Row {
  mark: Mark;
  cells: readonly Cell[];
}
export interface TableBlock {
  kind: "table";
  title: string;
  columns: readonly string[];
  rows: readonly Row[];
}
export type Block =
  | TableBlock
  | { kind: "text"; text: string; mark?: Mark }
  | { kind: "message"; title: string; text: string };
export interface Section {
  id: string;
  title: string;
  blocks: readonly Block[];
}

const SEGMENT = /^(?:.*: )?([A-Z][A-Z0-9]{2})(?:-|$)/;

/** The changes by place. Places that nobody asks for are those of removed parts. */
class Changes {
  readonly #byPlace = new Map<string, SpecificationChange[]>();
  constructor(changes: readonly SpecificationChange[]) {
    for (const change of changes)
      this.#byPlace.set(change.place, [...(this.#byPlace.get(change.place) ?? []), change]);
  }
  mark(place: string): Mark {
    return this.#byPlace.get(place)?.[0]?.kind === "added" ? "added" : "same";
  }
  cell(place: string, fact: string, text: string): Cell {
    const found = this.#byPlace.get(place)?.find((change) => change.fact === fact);
    return { text, before: found?.before };
  }
  removed(fits: (place: string) => boolean): SpecificationChange[] {
    return [...this.#byPlace]
      .filter(([place]) => fits(place))
      .flatMap(([, found]) => found.filter((change) => change.kind === "removed"));
  }
}

const table = (title: string, columns: readonly string[], rows: readonly Row[]): Block[] =>
  rows.length ? [{ kind: "table", title, columns, rows }] : [];
const column = (name: string) => t(`specification.column_${name}`);
const gone = (name: string, before: string, width: number): Row => ({
  mark: "removed",
  cells: [
    { text: name, mono: true },
    { text: before },
    ...Array.from({ length: width - 2 }, () => ({ text: "" })),
  ],
});

/** Names with one value each; `prefix` begins their places. */
function pairs(
  changes: Changes,
  prefix: string,
  fact: string,
  columns: readonly [string, string],
  items: readonly { name: string; value: string }[],
): Block[] {
  const rows: Row[] = items.map(({ name, value }) => ({
    mark: changes.mark(prefix + name),
    cells: [{ text: name }, changes.cell(prefix + name, fact, value)],
  }));
  const removed = changes
    .removed((place) => place.startsWith(prefix))
    .map((change) => gone(change.place.slice(prefix.length), change.before, 2));
  return table("", columns.map(column), [...rows, ...removed]);
}

const FIELDS = ["field", "name", "type", "usage", "card", "content", "codes", "example"];

function segments(of: Specification, changes: Changes): Block[] {
  const known = new Set(
    of.segments.map(({ name, within }) => (within ? `${within}: ` : "") + name),
  );
  const blocks = of.segments.flatMap((segment): Block[] => {
    const prefix = segment.within ? `${segment.within}: ` : "";
    const own = prefix + segment.name;
    const rows: Row[] = segment.fields.map((field) => {
      const place = prefix + field.place;
      const usage = (fact: "usage" | "cardinality" | "content" | "condition" | "codes") =>
        changes.cell(place, fact, field[fact]);
      const content = usage("content");
      const condition = usage("condition");
      return {
        mark: changes.mark(place),
        cells: [
          { text: field.place, mono: true },
          { text: field.name },
          { text: field.type },
          usage("usage"),
          usage("cardinality"),
          joined(content, condition),
          usage("codes"),
          { text: field.example, mono: true },
        ],
      };
    });
    const removed = changes
      .removed((place) => place.startsWith(`${own}-`))
      .map((change) => gone(change.place.slice(prefix.length), change.before, FIELDS.length));
    const within = segment.within ? t("specification.within", { name: segment.within }) : "";
    const title = [`${segment.name} ${segment.title}`.trim(), segment.cardinality, within];
    const note = segment.note || (rows.length + removed.length ? "" : t("specification.no_fields"));
    return [
      ...table(title.filter(Boolean).join(" · "), FIELDS.map(column), [...rows, ...removed]),
      ...(note
        ? [{ kind: "text", text: `${segment.name}: ${note}`, mark: changes.mark(own) } as const]
        : []),
    ];
  });
  const removed = changes
    .removed((place) => SEGMENT.test(place))
    .filter(({ place }) => ![...known].some((own) => place === own || place.startsWith(`${own}-`)))
    .map((change) => gone(change.place, change.before, 2));
  return [
    ...(blocks.length ? [{ kind: "text", text: t("specification.usage") } as const] : []),
    ...blocks,
    ...table(t("specification.removed"), [column("field"), column("content")], removed),
  ];
}

/** Two facts in one cell: content, and the condition under which it applies. */
function joined(one: Cell, other: Cell): Cell {
  const both = (first: string, second: string) => [first, second].filter(Boolean).join("; ");
  const differs = one.before !== undefined || other.before !== undefined;
  return {
    text: both(one.text, other.text),
    before: differs ? both(one.before ?? one.text, other.before ?? other.text) : undefined,
  };
}

function codes(of: Specification, changes: Changes): Block[] {
  const columns = ["code", "meaning", "remark"].map(column);
  const blocks = of.codes.flatMap((one): Block[] => {
    const prefix = `codes ${one.name}: `;
    const rows: Row[] = one.rows.map(({ code, value, remark }) => ({
      mark: changes.mark(prefix + code),
      cells: [
        { text: code, mono: true },
        changes.cell(prefix + code, "value", value),
        { text: remark },
      ],
    }));
    const removed = changes
      .removed((place) => place.startsWith(prefix))
      .map((change) => gone(change.place.slice(prefix.length), change.before, columns.length));
    return [
      ...table(one.name, columns, [...rows, ...removed]),
      ...(one.note ? [{ kind: "text", text: one.note } as const] : []),
    ];
  });
  const known = of.codes.map(({ name }) => `codes ${name}`);
  const removed = changes
    .removed((place) => place.startsWith("codes "))
    .filter(({ place }) => !known.some((own) => place === own || place.startsWith(`${own}: `)))
    .map((change) => gone(change.place.slice("codes ".length), change.before, 2));
  return [
    ...blocks,
    ...table(t("specification.removed"), [column("code"), column("meaning")], removed),
  ];
}

function control(of: Specification, changes: Changes): Block[] {
  const prefix = "order control ";
  const rows: Row[] = of.control.map((row) => {
    const place = prefix + [row.control, row.status].filter(Boolean).join("/");
    const status = row.status || t("specification.any_status");
    return {
      mark: changes.mark(place),
      cells: [
        { text: row.control, mono: true },
        { text: status, mono: row.status !== "" },
        changes.cell(place, "action", row.action),
      ],
    };
  });
  const removed = changes
    .removed((place) => place.startsWith(prefix))
    .map((change): Row => {
      const [code = "", status = ""] = change.place.slice(prefix.length).split("/");
      const cells = [{ text: code, mono: true }, { text: status }, { text: change.before }];
      return { mark: "removed", cells };
    });
  return [
    ...table("", ["control", "status", "effect"].map(column), [...rows, ...removed]),
    ...pairs(changes, "reply ", "value", ["control", "reply"], of.replies),
  ];
}

/** Returns the sections that have content. */
export function sectionsOf(of: Specification): Section[] {
  const changes = new Changes(of.changes ?? []);
  const facts = ["property", "value"] as const;
  const messages = of.messages.map(({ type, purpose }) => ({ name: type, value: purpose }));
  const all: Record<string, Block[]> = {
    transport: pairs(changes, "transport: ", "value", facts, of.transport),
    messages: pairs(changes, "message ", "purpose", ["message", "purpose"], messages),
    segments: segments(of, changes),
    codes: codes(of, changes),
    acknowledgments: pairs(changes, "acknowledgment ", "value", facts, of.acknowledgments),
    control: control(of, changes),
    examples: of.examples.map(({ title, text }) => ({ kind: "message", title, text })),
  };
  return Object.entries(all)
    .filter(([, blocks]) => blocks.length > 0)
    .map(([id, blocks]) => ({ id, title: t(`specification.${id}`), blocks }));
}
