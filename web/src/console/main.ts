// Mounts the console in the page that the server rendered.
import { mount } from "svelte";
import "./base.css";
import { applyTheme, type Theme } from "../shared/theme/theme";
import App from "./App.svelte";
import { applyDensity } from "./data/preferences.svelte";

const boot = JSON.parse(document.getElementById("boot")?.textContent ?? "{}") as {
  theme?: Theme;
  refusal?: string;
};
applyTheme(boot.theme ?? "dark", document);
applyDensity();
mount(App, { target: document.body, props: { refusal: boot.refusal ?? "" } });
