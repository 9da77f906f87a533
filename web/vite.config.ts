// How the apps are built: hashed files in one folder, a manifest of each app for the page templates,
// nothing inlined, so that a policy of 'self' suffices. Each app is built alone: it has only the
// parts of the libraries that it uses itself.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { EnvironmentOptions, Plugin } from "vite";
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

// What three areas need is one chunk: many small ones compress less. Differences load with the pages
// that show some.
const SHARED = {
  name: "shared",
  minShareCount: 3,
  test: /^(?!.*(?:DiffView|difference|\/diff\/))/,
};

function app(name: string, output = {}): EnvironmentOptions {
  return {
    consumer: "client",
    build: {
      manifest: `${name}.manifest.json`,
      rollupOptions: { input: { [name]: `src/${name}/main.ts` }, output },
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
    target: "es2022",
    reportCompressedSize: false,
  },
  environments: {
    report: app("report"),
    console: app("console", { codeSplitting: { groups: [SHARED] } }),
  },
  builder: {
    async buildApp({ build, environments }) {
      for (const name of ["report", "console"]) {
        const environment = environments[name];
        if (environment) await build(environment);
      }
    },
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
