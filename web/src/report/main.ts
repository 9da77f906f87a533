// Mounts the report app in the page that the server rendered.
import { mount } from "svelte";
import "../shared/theme/theme.css";
import { locale } from "../shared/i18n";
import { applyTheme } from "../shared/theme/theme";
import App from "./App.svelte";
import { readBoot } from "./boot";
import { typed } from "./login/loginFields";

const boot = readBoot(document);
// The handle in the URL was exchanged for a session, so it is removed. In a frame it stays:
// it is not visible there, and without cookies it is needed to reload the frame.
const framed = window.parent !== window;
if (location.search && boot.mode === "report" && !framed) {
  // The cookie belongs to the report opened last; each tab remembers its own report, so that a
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
