// How the apps are built: hashed files in one folder, a manifest for the engine's page template,
// nothing inlined, so that a policy of 'self' suffices.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Writes a `.br` file beside each script and style sheet; fonts are compressed already. */
function brotli(): Plugin {
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  return {
    name: "brotli",
    apply: "build",
    writeBundle({ dir = "" }, bundle) {
      for (const name of Object.keys(bundle).filter((file) => /\.(?:js|css)$/.test(file))) {
        const file = join(dir, name);
        writeFileSync(`${file}.br`, brotliCompressSync(readFileSync(file), { params }));
      }
    },
  };
}

export default defineConfig({
  base: "/reporting/assets/",
  plugins: [svelte(), brotli()],
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
