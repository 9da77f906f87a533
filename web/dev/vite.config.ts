// The pages for development: the components in all states, and the console on recorded answers.
// `npm run dev`, then /dev/ for the components and /console for the console. Nothing of it is shipped.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { fakeService } from "./fake";

export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  plugins: [svelte(), fakeService()],
  server: { port: 5199, strictPort: true },
});
