import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

export default ts.config(
  { ignores: ["node_modules/"] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.node } },
    rules: {
      "no-console": "error",
      "no-restricted-imports": ["error", { patterns: ["http://*", "https://*"] }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      eqeqeq: "error",
    },
  },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } },
    rules: {
      // The content security policy allows neither: a static style attribute is markup.
      "svelte/no-inline-styles": ["error", { allowTransitions: false }],
      "svelte/no-at-html-tags": "error",
      // State is replaced as a whole ($state.raw), so its sets and maps need not be watched.
      "svelte/prefer-svelte-reactivity": "off",
    },
  },
  {
    files: ["src/**", "dev/**"],
    ignores: ["src/console/ui/**"],
    rules: {
      "no-restricted-imports": [
        "error",
        {
          patterns: [
            { group: ["http://*", "https://*"] },
            { group: ["uplot"], message: "Pages use the components of console/ui." },
          ],
        },
      ],
    },
  },
);
