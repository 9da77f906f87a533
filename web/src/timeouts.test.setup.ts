// Slow machines need more than the testing library's default of one second. Tests without a
// document (`@vitest-environment node`) start quicker, and do not load it.
if (typeof document !== "undefined") {
  const { configure } = await import("@testing-library/svelte");
  configure({ asyncUtilTimeout: 15_000 });
}

export {};
