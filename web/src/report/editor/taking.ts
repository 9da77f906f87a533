// The report on paper. It comes from the engine's export, as its files do, so that every way out
// shows the same report.

/** Prints the exported document: its article stands in the page for as long as that takes. */
export async function printReport(blob: Blob, document: Document): Promise<void> {
  // Its own style sheet is for the file: the page's policy knows none but ours (paper.css).
  const markup = (await blob.text()).replace(/<style>[^<]*<\/style>/, "");
  const exported = new DOMParser().parseFromString(markup, "text/html");
  const article = exported.querySelector("article.report");
  if (!article) return;
  const sheet = document.createElement("div");
  sheet.className = "print-sheet";
  sheet.append(document.adoptNode(article));
  document.body.append(sheet);
  document.defaultView?.addEventListener("afterprint", () => sheet.remove(), { once: true });
  document.defaultView?.print();
}
