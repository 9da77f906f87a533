// Starts the reporting app on the page that the engine sent.
import { mount } from "svelte";
import "../shared/theme/theme.css";
import { locale } from "../shared/i18n";
import { applyTheme } from "../shared/theme/theme";
import App from "./App.svelte";
import { readBoot } from "./boot";
import { typed } from "./login/typed";

const boot = readBoot(document);
// The handle in the address was exchanged for a session: it need not stay there. In a frame it does:
// nobody sees it, and where no cookie is kept it is what loads the frame again.
const framed = window.parent !== window;
if (location.search && boot.mode === "report" && !framed) {
  // The browser's cookie is of the report opened last; a tab says which one it showed, so that a
  // reload never shows another patient's.
  const shown = boot.window.persistent ? "" : `?report=${encodeURIComponent(boot.reportId)}`;
  history.replaceState(null, "", location.pathname + shown);
}
applyTheme(boot.theme, document);
await locale.set(boot.locale);
const fallback = document.getElementById("fallback");
if (fallback && boot.mode === "login") typed.take(fallback);
fallback?.remove();
mount(App, { target: document.body, props: { boot } });
