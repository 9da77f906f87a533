// The component page: every part in every state.
import { mount } from "svelte";
import "../src/console/base.css";
import { applyTheme, type Theme } from "../src/shared/theme/theme";
import { applyDensity, preferences, type Density } from "../src/console/data/preferences.svelte";
import Gallery from "./Gallery.svelte";

const query = new URLSearchParams(location.search);
const density = query.get("density");
applyTheme((query.get("theme") ?? "dark") as Theme, document);
if (density) preferences.setDensity(density as Density);
else applyDensity();
mount(Gallery, { target: document.body });
