// Lists pasted as paragraphs: Word marks them by styles and writes bullets and numbers as
// text; Word for the web pastes each item as a separate list.

interface Item {
  element: Element;
  level: number;
  ordered: boolean;
  number: number;
}

/** The attribute that holds the style of a pasted element. */
export const STYLE = "data-style";

/** Returns the value of a style's property, in lower case; empty if it is not set. */
export function styleOf(element: Element, property: string): string {
  const declared = new RegExp(`(?:^|;)\\s*${property}\\s*:\\s*([^;]+)`, "i");
  const value = declared.exec(element.getAttribute(STYLE) ?? "")?.[1] ?? "";
  return value.trim().toLowerCase();
}

const NUMBER = /^\(?(?:(\d+)(?:\.\d+)*|[a-z]|[ivxlcdm]+)[.)]/i;
const NUMBER_CLASS = /\bMsoListNumber(\d?)/;
const BULLET_CLASS = /\bMsoListBullet(\d?)/;

/** Replaces paragraphs that are list items by lists; neighbours make one list. */
export function listsFromParagraphs(body: HTMLElement): void {
  unwrapWebLists(body);
  let run: Item[] = [];
  const close = (): void => {
    const first = run[0];
    if (first) first.element.before(...listsOf(run, 0));
    for (const line of run) line.element.remove();
    run = [];
  };
  for (const element of body.querySelectorAll("p, div, h1, h2, h3, h4, h5, h6, li")) {
    const item = itemAt(element);
    const last = run.at(-1);
    if (!item || (last && element.previousElementSibling !== last.element)) close();
    if (item) run.push(item);
  }
  close();
}

function itemAt(element: Element): Item | null {
  const level = /\blevel(\d+)/.exec(styleOf(element, "mso-list"))?.[1];
  const names = element.className;
  const named = NUMBER_CLASS.exec(names) ?? BULLET_CLASS.exec(names);
  if (!level && !named) return null;
  // A heading keeps its number as text, because a list item cannot be a heading.
  if (element.matches("h1, h2, h3, h4, h5, h6, li")) return null;
  const marker = takeMarker(element);
  const ordered = marker ? NUMBER.test(marker) : NUMBER_CLASS.test(names);
  const number = Number(NUMBER.exec(marker)?.[1] ?? 1);
  return { element, level: Number(level || named?.[1] || 1) - 1, ordered, number };
}

/** Removes the bullet or number that Word wrote into a paragraph, and returns it. */
function takeMarker(element: Element): string {
  const ignored = [...element.querySelectorAll(`[${STYLE}]`)].filter(
    (one) => styleOf(one, "mso-list") === "ignore",
  );
  if (ignored.length) {
    for (const one of ignored) one.remove();
    return ignored
      .map((one) => one.textContent)
      .join("")
      .trim();
  }
  const comments = element.ownerDocument.createTreeWalker(element, 128 /* comments */);
  while (comments.nextNode()) {
    const begin = comments.currentNode;
    if (!/\[if\s+!supportLists\]/i.test(begin.nodeValue ?? "")) continue;
    let marker = "";
    while (begin.nextSibling && !/\[endif\]/i.test(begin.nextSibling.nodeValue ?? "")) {
      marker += begin.nextSibling.textContent ?? "";
      begin.nextSibling.remove();
    }
    return marker.trim();
  }
  return "";
}

function listsOf(items: readonly Item[], level: number): HTMLElement[] {
  const lists: HTMLElement[] = [];
  let index = 0;
  while (index < items.length) {
    const { element, ordered, number } = items[index] as Item;
    let next = index + 1;
    while (next < items.length && (items[next] as Item).level > level) next += 1;
    const tag = ordered ? "OL" : "UL";
    let list = lists.at(-1);
    if (list?.nodeName !== tag) {
      list = element.ownerDocument.createElement(tag);
      if (ordered && number !== 1) list.setAttribute("start", String(number));
      lists.push(list);
    }
    const item = element.ownerDocument.createElement("li");
    item.append(...element.childNodes, ...listsOf(items.slice(index + 1, next), level + 1));
    list.append(item);
    index = next;
  }
  return lists;
}

/** Makes paragraphs of the one-item lists of Word for the web, marked as Word's own. */
function unwrapWebLists(body: HTMLElement): void {
  for (const item of body.querySelectorAll("li[data-aria-level]")) {
    const list = item.parentElement;
    if (!list || list.childElementCount !== 1 || list.closest("li")) continue;
    for (const element of item.querySelectorAll("p, div"))
      element.replaceWith(...element.childNodes);
    const line = item.ownerDocument.createElement("p");
    const ordered = list.matches("ol");
    const level = Number(item.getAttribute("data-aria-level")) || 1;
    const number = Number(list.getAttribute("start")) || 1;
    line.setAttribute(STYLE, `mso-list:l0 level${level}`);
    const marker = item.ownerDocument.createElement("span");
    marker.setAttribute(STYLE, "mso-list:Ignore");
    marker.append(ordered ? `${number}.` : "·");
    line.append(marker, ...item.childNodes);
    const wrapper = list.parentElement?.matches(".ListContainerWrapper")
      ? list.parentElement
      : list;
    wrapper.replaceWith(line);
  }
}
