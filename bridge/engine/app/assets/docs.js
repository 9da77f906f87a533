// Shows /openapi.json: chapters, endpoints, shapes. No network but our own.
"use strict";
(async () => {
  const make = (tag, text, parent) => {
    const node = document.createElement(tag);
    if (text) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };
  const place = document.getElementById("docs");
  const description = await (await fetch("/openapi.json")).json();
  const resolve = (schema) => schema && schema.$ref
    ? description.components.schemas[schema.$ref.split("/").pop()] : schema;
  const chapters = new Map();
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const chapter = (operation.tags || ["Other"])[0];
      if (!chapters.has(chapter)) chapters.set(chapter, []);
      chapters.get(chapter).push([method.toUpperCase(), path, operation]);
    }
  }
  place.replaceChildren();
  for (const [chapter, entries] of chapters) {
    make("h2", chapter, place);
    for (const [method, path, operation] of entries) {
      const box = make("details", "", place);
      box.className = "card";
      make("summary", method + " " + path, box);
      make("p", operation.description || operation.summary, box);
      const body = operation.requestBody && operation.requestBody.content["application/json"];
      if (operation.parameters) {
        make("p", "Query: " + operation.parameters.map((each) => each.name +
          (each.required ? " (required)" : "")).join(", "), box);
      }
      if (body) make("pre", JSON.stringify(resolve(body.schema), null, 2), box);
      make("p", "Answers: " + Object.entries(operation.responses).map(([status, each]) =>
        status + " " + each.description).join(" · "), box);
    }
  }
})();
