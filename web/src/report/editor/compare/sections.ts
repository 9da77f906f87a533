// Two reports side by side. Sections with the same heading are aligned, regardless of their order
// and spelling, and their lines are compared.
import { blockLines, type Block, type ReportDocument } from "../text/document";
import { diffLines, type LinePair, type Piece } from "./diff";

interface Section {
  /** The heading's words without case and colon; empty above the first heading. */
  name: string;
  heading: string | null;
  lines: string[];
}

/** In plain text, a heading is a line that ends with a colon or is in capitals. */
const WITH_COLON = /^\p{L}[\p{L}\p{M}\s/&,()-]{0,58}[:：]$/u;
const IN_CAPITALS = /^(?=.*\p{Lu}{3})[\p{Lu}\p{M}\s/&,()-]{3,60}[:：]?$/u;

/** Returns the lines of two reports side by side, section by section. */
export function diffReports(before: ReportDocument, after: ReportDocument): LinePair[] {
  const [ones, others] = [sectionsOf(before), sectionsOf(after)];
  const partners = partnersOf(ones, others);
  const taken = new Set(partners.values());
  const pairs: LinePair[] = [];
  // A section missing in the newer report keeps its position of the older report.
  const showLacking = (from: number) => {
    for (let index = from; index < ones.length; index += 1) {
      const one = ones[index] as Section;
      if (taken.has(one)) return;
      pairs.push(...compared(one, undefined));
    }
  };
  showLacking(0);
  for (const other of others) {
    const one = partners.get(other);
    pairs.push(...compared(one, other));
    if (one) showLacking(ones.indexOf(one) + 1);
  }
  return pairs;
}

function sectionsOf(document: ReportDocument): Section[] {
  const sections: Section[] = [{ name: "", heading: null, lines: [] }];
  for (const block of document.content) {
    const lines = blockLines(block);
    const heading = headingOf(block);
    if (heading === null) sections.at(-1)?.lines.push(...lines);
    else sections.push({ name: nameOf(heading), heading, lines: [] });
  }
  return sections;
}

function headingOf(block: Block): string | null {
  if (block.type === "section") return block.title;
  if (block.type !== "paragraph") return null;
  const line = blockLines(block).join(" ").trim();
  return WITH_COLON.test(line) || IN_CAPITALS.test(line) ? line : null;
}

const nameOf = (heading: string): string =>
  heading.replace(/[:：]/g, " ").trim().replace(/\s+/g, " ").toLocaleLowerCase();

/** Returns the older section for a newer one: the next one with the same name. */
function partnersOf(ones: readonly Section[], others: readonly Section[]): Map<Section, Section> {
  const waiting = new Map<string, Section[]>();
  for (const one of ones) waiting.set(one.name, [...(waiting.get(one.name) ?? []), one]);
  const partners = new Map<Section, Section>();
  for (const other of others) {
    const one = waiting.get(other.name)?.shift();
    if (one) partners.set(other, one);
  }
  return partners;
}

function compared(one: Section | undefined, other: Section | undefined): LinePair[] {
  const pairs = diffLines(one?.lines ?? [], other?.lines ?? []);
  const heading = headings(one, other);
  return heading ? [heading, ...pairs] : pairs;
}

function headings(one: Section | undefined, other: Section | undefined): LinePair | null {
  const [before, after] = [one?.heading ?? null, other?.heading ?? null];
  if (before === null && after === null) return null;
  const both = before !== null && after !== null;
  const shown = (text: string | null, kind: Piece["kind"]): Piece[] | null =>
    text === null ? null : [{ kind: both ? "same" : kind, text }];
  return { before: shown(before, "removed"), after: shown(after, "added"), heading: true };
}
