// Serves the console without the Python service: /console with the answers of answers.ts and dev/fixtures.
//
// `?slow=800` delays the answers of a page, `?fail=messages` refuses those whose path contains the word,
// `?theme=light` chooses a theme. The values come from the address of the page (Referer).
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";
import { answerOf } from "./answers";

const HERE = import.meta.dirname;

/** `isReal`: the answers come from a running service, and only the page is ours. */
export function fakeService(isReal: boolean): Plugin {
  return {
    name: "fake-service",
    configureServer(server) {
      server.middlewares.use((request, response, next) => {
        const url = new URL(request.url ?? "/", "http://localhost");
        if (url.pathname === "/dev" || url.pathname === "/dev/") {
          request.url = "/dev/index.html";
          next();
        } else if (/^\/(?:console\/api|reporting)\//.test(url.pathname)) {
          if (isReal) next();
          else
            void answer(url, String(request.headers.referer ?? "")).then(({ status, body }) => {
              response.statusCode = status;
              response.setHeader("Content-Type", "application/json");
              response.end(body);
            });
        } else if (url.pathname === "/console" || url.pathname.startsWith("/console/")) {
          const page = readFileSync(join(HERE, "console.html"), "utf8");
          const theme = url.searchParams.get("theme") ?? "dark";
          void server
            .transformIndexHtml(request.url ?? "", page.replaceAll('"dark"', JSON.stringify(theme)))
            .then((html) => {
              response.setHeader("Content-Type", "text/html");
              response.end(html);
            });
        } else next();
      });
    },
  };
}

async function answer(url: URL, page: string): Promise<{ status: number; body: string }> {
  const path = url.pathname;
  const query = page ? new URL(page).searchParams : new URLSearchParams();
  await new Promise((resolve) => setTimeout(resolve, Number(query.get("slow") ?? 0)));
  const fail = query.get("fail");
  if (fail && path.includes(fail))
    return {
      status: 500,
      body: JSON.stringify({ code: "internal_error", detail: "The database is locked." }),
    };
  const made = answerOf(path.replace(/^\/console\/api\//, ""), url.searchParams);
  if (made !== undefined) return { status: 200, body: JSON.stringify(made) };
  const name = path.replace(/^\/(?:console\/api|reporting)\//, "").replaceAll("/", "_");
  for (const file of [name, name.replace(/_\d+(?=_|$)/g, "_ID")]) {
    const known = join(HERE, "fixtures", `${file}.json`);
    if (existsSync(known)) return { status: 200, body: readFileSync(known, "utf8") };
  }
  return { status: 404, body: JSON.stringify({ code: "unknown", detail: "no fixture" }) };
}
