// Slow machines need more than the testing library's default of one second.
import { configure } from "@testing-library/svelte";

configure({ asyncUtilTimeout: 15_000 });
