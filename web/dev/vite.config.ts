// The pages for development: the components in all states, and the console on recorded answers.
// `npm run dev`, then /dev/ for the components and /console for the console. Nothing of it is shipped.
// With SERVICE=http://127.0.0.1:8080 the console has the data of a running service, after a sign-in.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { fakeService } from "./fake";

const service = process.env["SERVICE"];
/** The service accepts changes from its own pages only. */
const proxied = {
  target: service ?? "",
  changeOrigin: true,
  headers: { origin: service ?? "" },
};

export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  plugins: [svelte(), fakeService(service !== undefined)],
  server: {
    port: 5199,
    strictPort: true,
    ...(service ? { proxy: { "/console/api": proxied, "/reporting": proxied } } : {}),
  },
});
