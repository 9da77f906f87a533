// How the apps are built: hashed files in one folder, a manifest for the engine's page template,
// nothing inlined, so that a policy of 'self' suffices.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "/reporting/assets/",
  plugins: [svelte()],
  resolve: process.env["VITEST"] ? { conditions: ["browser"] } : {},
  build: {
    outDir: "../bridge/engine/app/assets/built",
    emptyOutDir: false,
    assetsDir: "",
    assetsInlineLimit: 0,
    manifest: "manifest.json",
    target: "es2022",
    reportCompressedSize: false,
    rollupOptions: { input: { report: "src/report/main.ts", console: "src/console/main.ts" } },
  },
  test: {
    environment: "jsdom",
    setupFiles: ["src/environment.test.setup.ts"],
    pool: "threads",
    isolate: false,
    include: ["src/**/*.test.ts"],
    passWithNoTests: false,
    testTimeout: 30_000, // machines may be slow, and the library's five seconds short
    expect: { poll: { timeout: 15_000 } },
  },
});
