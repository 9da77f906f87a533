// Machines may be slow, and the testing library's one second short.
import { configure } from "@testing-library/svelte";

configure({ asyncUtilTimeout: 15_000 });
