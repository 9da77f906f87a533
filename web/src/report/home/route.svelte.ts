// The current page of the app, as its URL names it.

export const PLACES = ["worklist", "settings", "administration"] as const;
export type Place = (typeof PLACES)[number];

const placeOf = (path: string): Place =>
  PLACES.find((name) => path === `/reporting/${name}`) ?? "worklist";

let current = $state<Place>(placeOf(location.pathname));

export const place = {
  get current(): Place {
    return current;
  },
  go(wanted: Place): void {
    if (wanted !== current) history.pushState({}, "", `/reporting/${wanted}`);
    current = wanted;
  },
};

window.addEventListener("popstate", () => (current = placeOf(location.pathname)));
