// Pasted markup of Word, Google Docs, spreadsheets and web pages, reduced to what a report can
// contain. An inert document parses it, so nothing is executed or loaded.
import { MAX_COLUMNS, MAX_LIST_DEPTH } from "./document";
import { subscript, superscript } from "./scripts";
import { listsFromParagraphs, STYLE, styleOf } from "./pastedLists";

const DROPPED = "script, style, meta, link, title, img, svg, object, iframe, colgroup, col";
const HEADINGS = "h1, h2, h3, h4, h5, h6";
const BLOCKS = `p, div, blockquote, pre, table, ul, ol, section, article, header, footer, ${HEADINGS}`;
const LINES = `p, div, pre, blockquote, section, article, header, footer, ${HEADINGS}`;
const INSIDE_ITEM = `p, div, blockquote, pre, table, tr, td, th, section, article, ${HEADINGS}`;

/** Returns markup whose list items are one line with sublists, and whose tables are plain grids. */
export function cleanPasted(html: string): string {
  const { body } = new DOMParser().parseFromString(withoutStyles(html), "text/html");
  const all = (selector: string) => [...body.querySelectorAll(selector)];
  for (const element of all(`${DROPPED}, .Apple-interchange-newline`)) element.remove();
  listsFromParagraphs(body);
  emphasisFromStyles(body);
  scriptsAsText(body);
  for (const element of all("p")) emptyIfBlank(element);
  for (const list of all("ul > ul, ul > ol, ol > ul, ol > ol")) intoItemBefore(list);
  for (const item of all("li")) flattenItem(item);
  for (const list of all("ol[start]").reverse()) keepNumbers(list as HTMLOListElement);
  for (const table of all("table").reverse()) tidyTable(table as HTMLTableElement);
  if (body.querySelector(":scope > br")) wrapText(body);
  for (const element of all("br").reverse()) splitAt(element);
  for (const element of all(`[${STYLE}]`)) element.removeAttribute(STYLE);
  return body.innerHTML;
}

const STYLE_ELEMENTS = /<style\b[^>]*>[\s\S]*?(?:<\/style\s*>|$)/gi;
const TAGS = /<[a-z](?:[^"'>]|"[^"]*"|'[^']*')*>/gi;
const ATTRIBUTES = /([\s"'/])style(\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]*))|"[^"]*"|'[^']*'/gi;

/**
 * Returns markup whose style attributes have another name, without style sheets.
 *
 * The content security policy of the page forbids both even in an inert document; the browser would
 * report each of them as an error.
 */
function withoutStyles(html: string): string {
  return html
    .replace(STYLE_ELEMENTS, "")
    .replace(TAGS, (tag) =>
      tag.replace(ATTRIBUTES, (whole, before?: string, rest?: string) =>
        before === undefined ? whole : `${before}${STYLE}${rest}`,
      ),
    );
}

/** Google Docs wraps everything in a `<b>` that is not bold, and marks bold text by styles. */
function emphasisFromStyles(body: HTMLElement): void {
  for (const element of body.querySelectorAll("b, strong, i, em, u")) {
    if (isPlain(element)) element.replaceWith(...element.childNodes);
  }
  for (const element of body.querySelectorAll(`span[${STYLE}]`)) {
    if (isBold(styleOf(element, "font-weight"))) wrapContent(element, "strong");
    if (styleOf(element, "font-style") === "italic") wrapContent(element, "em");
    if (decoration(element).includes("underline") && !element.closest("a"))
      wrapContent(element, "u");
  }
}

/** Raised and lowered text, by elements or by styles; the outermost decides. */
function scriptsAsText(body: HTMLElement): void {
  for (const element of body.querySelectorAll(`sup, sub, [${STYLE}*="vertical-align" i]`)) {
    if (!element.isConnected) continue; // it was inside of another one
    const align = styleOf(element, "vertical-align") || element.tagName.toLowerCase();
    if (element.matches("table *:is(td, th, tr), p, div, li")) continue;
    if (/^sup/.test(align)) element.textContent = superscript(element.textContent ?? "");
    else if (/^sub/.test(align)) element.textContent = subscript(element.textContent ?? "");
  }
}

const isBold = (weight: string): boolean => weight.startsWith("bold") || Number(weight) >= 600;
const decoration = (element: Element): string => styleOf(element, "text-decoration(?:-line)?");

function isPlain(element: Element): boolean {
  const weight = styleOf(element, "font-weight");
  if (element.matches("b, strong")) return weight !== "" && !isBold(weight);
  if (element.matches("i, em")) return styleOf(element, "font-style") === "normal";
  return decoration(element) === "none";
}

function wrapContent(element: Element, tag: string): void {
  const wrapped = element.ownerDocument.createElement(tag);
  wrapped.append(...element.childNodes);
  element.append(wrapped);
}

/** Word writes an empty line as a paragraph with a hard space. */
function emptyIfBlank(paragraph: Element): void {
  if (!isFilled(paragraph) && !paragraph.querySelector("br")) paragraph.replaceChildren();
}

/** A list directly inside a list (Google Docs) belongs to the previous item. */
function intoItemBefore(list: Element): void {
  const before = list.previousElementSibling;
  if (before?.matches("li")) before.append(list);
  else list.replaceWith(...list.childNodes);
}

/** An item is one line followed by its sublists; levels beyond the limit move up. */
function flattenItem(item: Element): void {
  const sublists = [...item.querySelectorAll("ul, ol")].filter(
    (list) => list.parentElement?.closest("li") === item,
  );
  for (const sublist of sublists) sublist.remove();
  for (const block of item.querySelectorAll(INSIDE_ITEM)) {
    const before = block.previousSibling ? [" "] : [];
    const after = block.nextSibling ? [" "] : [];
    block.replaceWith(...before, ...block.childNodes, ...after);
  }
  for (const element of item.querySelectorAll("br")) element.replaceWith(" ");
  if (depthOf(item) < MAX_LIST_DEPTH) item.append(...sublists);
  else item.after(...sublists.flatMap((sublist) => [...sublist.children]));
}

function depthOf(item: Element): number {
  let depth = 0;
  for (let at = item.parentElement; at; at = at.parentElement) if (at.matches("ul, ol")) depth += 1;
  return depth;
}

/** Lists in a report start at 1: a list with another start number keeps its numbers as text. */
function keepNumbers(list: HTMLOListElement): void {
  if (list.start === 1 || list.closest("li")) return;
  let number = list.start;
  for (const item of [...list.children]) {
    const sublists = [...item.children].filter((child) => child.matches("ul, ol"));
    const line = list.ownerDocument.createElement("p");
    for (const sublist of sublists) sublist.remove();
    line.append(`${number}. `, ...item.childNodes);
    list.before(line, ...sublists);
    number += 1;
  }
  list.remove();
}

/** Expands merged cells; a layout table becomes its lines. */
function tidyTable(table: HTMLTableElement): void {
  const outer = table.parentElement?.closest("td, th");
  const grid = gridOf(table);
  const width = Math.max(0, ...grid.map((row) => row.length));
  const caption = table.caption;
  if (caption) table.before(renamed(caption, "p"));
  caption?.remove();
  if (outer || width > MAX_COLUMNS || (width <= 1 && grid.length <= 1)) {
    table.replaceWith(...grid.flatMap((row) => linesOfRow(row)));
    return;
  }
  for (const section of table.querySelectorAll(":scope > thead, :scope > tfoot, :scope > tbody")) {
    section.remove();
  }
  table.replaceChildren();
  for (const cells of grid) {
    const row = table.insertRow();
    row.append(...cells);
    while (row.cells.length < width) row.append(table.ownerDocument.createElement("td"));
  }
}

function gridOf(table: HTMLTableElement): HTMLTableCellElement[][] {
  // Word adds a row without height at the end of tables with merged cells.
  const rows = [...table.rows].filter((row) => row.getAttribute("height") !== "0" || isFilled(row));
  const grid: HTMLTableCellElement[][] = rows.map(() => []);
  rows.forEach((row, y) => {
    let x = 0;
    for (const cell of [...row.cells]) {
      while (grid[y]?.[x]) x += 1;
      const [wide, tall] = [Math.min(cell.colSpan, MAX_COLUMNS), cell.rowSpan || rows.length];
      for (let down = 0; down < Math.min(tall, rows.length - y); down += 1) {
        for (let right = 0; right < wide; right += 1) {
          const first = down === 0 && right === 0;
          const line = grid[y + down] as HTMLTableCellElement[];
          line[x + right] = first ? tidyCell(cell) : table.ownerDocument.createElement("td");
        }
      }
      x += wide;
    }
  });
  return grid.map((row) =>
    Array.from(row, (cell) => cell ?? table.ownerDocument.createElement("td")),
  );
}

const isFilled = (element: Element): boolean => /[^\s\u00a0]/.test(element.textContent);

/** A cell holds paragraphs and lists. */
function tidyCell(cell: HTMLTableCellElement): HTMLTableCellElement {
  const header = cell.nodeName === "TH" || cell.closest("thead") !== null;
  for (const element of cell.querySelectorAll(HEADINGS)) element.replaceWith(renamed(element, "p"));
  wrapText(cell);
  const tidy = cell.ownerDocument.createElement(header ? "th" : "td");
  tidy.append(...cell.childNodes);
  return tidy;
}

/** A row outside a table becomes one line with all its cells. */
function linesOfRow(row: HTMLTableCellElement[]): Node[] {
  if (row.length === 1) return [...(row[0]?.childNodes ?? [])];
  const text = row.map((cell) => cell.textContent.trim()).filter(Boolean);
  const line = row[0]?.ownerDocument.createElement("p");
  line?.append(text.join(" | "));
  return line ? [line] : [];
}

function renamed(element: Element, tag: string): Element {
  const other = element.ownerDocument.createElement(tag);
  other.append(...element.childNodes);
  return other;
}

/** Wraps text beside blocks in paragraphs; a line break between blocks becomes an empty paragraph. */
function wrapText(parent: Element): void {
  let line: Element | null = null;
  for (const node of [...parent.childNodes]) {
    const block = node.nodeType === 1 && holdsBlock(node as Element);
    const spaces = node.nodeType === 3 && !node.textContent?.trim();
    if (block) line = null;
    else if (line) line.append(node);
    else if (!spaces && node.nodeType !== 8) {
      line = parent.ownerDocument.createElement("p");
      node.replaceWith(line);
      if (node.nodeName !== "BR") line.append(node);
    }
  }
}

const holdsBlock = (element: Element): boolean =>
  element.matches(BLOCKS) || element.querySelector(BLOCKS) !== null;

/** A line break starts a new line of the same kind. */
function splitAt(lineBreak: Element): void {
  let line = lineBreak.closest(LINES);
  if (line?.querySelector(BLOCKS)) {
    wrapText(line);
    line = lineBreak.closest(LINES);
  }
  if (!line || line.querySelector(BLOCKS)) return;
  const rest = line.ownerDocument.createRange();
  rest.setStartAfter(lineBreak);
  rest.setEnd(line, line.childNodes.length);
  const next = line.cloneNode() as Element;
  next.append(rest.extractContents());
  lineBreak.remove();
  line.after(next);
}
