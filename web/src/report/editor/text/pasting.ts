// What is pasted: markup is reduced to what a report can hold, before the editor parses it.
// Parsed by an inert document, so that nothing of it runs or is loaded.

const BLOCKS = "p, div, blockquote, pre, table, tr, td, th, section, article";

/** Returns markup in which each list item is one line, and nested lists lie behind their item. */
export function cleanPasted(html: string): string {
  const inert = new DOMParser().parseFromString(html, "text/html");
  inert
    .querySelectorAll("script, style, meta, link, title, img, svg, object, iframe")
    .forEach((each) => {
      each.remove();
    });
  inert.querySelectorAll("li > ul, li > ol").forEach((nested) => {
    const items = [...nested.querySelectorAll(":scope > li")];
    nested.closest("li")?.after(...items);
    nested.remove();
  });
  inert.querySelectorAll("li").forEach((item) => {
    item.querySelectorAll(BLOCKS).forEach((block) => block.replaceWith(...block.childNodes, " "));
  });
  inert.querySelectorAll("br").forEach((each) => {
    const line = each.closest("p, div, li, h1, h2, h3, h4, h5, h6");
    if (!line) return;
    const rest = line.cloneNode() as Element;
    while (each.nextSibling) rest.append(each.nextSibling);
    line.after(rest);
    each.remove();
  });
  return inert.body.innerHTML;
}
