// Responses can arrive out of order. A page shows only the response to its latest request.
import { attempt } from "./data/api";

/** Returns a function that runs requests; a failed or outdated request gives undefined. */
export function latestOnly(): <T>(request: () => Promise<T>) => Promise<T | undefined> {
  let count = 0;
  return async (request) => {
    const number = ++count;
    const response = await attempt(request);
    return number === count ? response : undefined;
  };
}
