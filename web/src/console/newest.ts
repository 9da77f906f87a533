// Answers may overtake each other on the way: what stands on a page is what was asked for last.
import { attempt } from "./api";

/** Makes an asker: undefined where it failed, and where a newer question has been asked meanwhile. */
export function newest(): <T>(deed: () => Promise<T>) => Promise<T | undefined> {
  let asked = 0;
  return async (deed) => {
    const mine = ++asked;
    const answer = await attempt(deed);
    return mine === asked ? answer : undefined;
  };
}
