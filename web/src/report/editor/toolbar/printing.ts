// Prints the report. It uses the export of the service, so that paper and files
// show the same report.

/** Prints the exported document; its article is in the page only while printing. */
export async function printReport(blob: Blob, document: Document): Promise<void> {
  // The style sheet of the export is for files; the content security policy permits only paper.css.
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
