// Mounts the console in the page that the server rendered.
import { mount } from "svelte";
import "../shared/theme/theme.css";
import "./console.css";
import { applyTheme, type Theme } from "../shared/theme/theme";
import App from "./App.svelte";

const boot = JSON.parse(document.getElementById("boot")?.textContent ?? "{}") as {
  theme?: Theme;
  refusal?: string;
};
applyTheme(boot.theme ?? "dark", document);
mount(App, { target: document.body, props: { refusal: boot.refusal ?? "" } });
