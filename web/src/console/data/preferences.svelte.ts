// How this person likes the console, kept in this browser. No patient data is in it.

export type Density = "compact" | "comfortable";

interface Kept {
  density: Density | "";
  /** The navigation shows only icons. */
  navigation: "wide" | "small" | "";
  /** Letters act without Ctrl. */
  singleKeys: boolean;
  zone: string;
  /** The columns of each list, in their order. */
  columns: Record<string, string[]>;
  /** The width of side panels and panes in pixels. */
  sizes: Record<string, number>;
}
const EMPTY: Kept = {
  density: "",
  navigation: "",
  singleKeys: true,
  zone: "",
  columns: {},
  sizes: {},
};
const NAME = "report-bridge-console";
const WIDE = 1024;

function read(): Kept {
  try {
    return { ...EMPTY, ...(JSON.parse(localStorage.getItem(NAME) ?? "{}") as Partial<Kept>) };
  } catch {
    return { ...EMPTY };
  }
}

let kept = $state.raw<Kept>(read());

function change(next: Partial<Kept>): void {
  kept = { ...kept, ...next };
  try {
    localStorage.setItem(NAME, JSON.stringify(kept));
  } catch {
    return; // a browser without storage forgets the choice with the page
  }
}

export const preferences = {
  get density(): Density {
    return kept.density || (window.innerWidth >= WIDE ? "compact" : "comfortable");
  },
  get navigation(): "wide" | "small" | "" {
    return kept.navigation;
  },
  get singleKeys(): boolean {
    return kept.singleKeys;
  },
  get zone(): string {
    return kept.zone;
  },
  columns: (list: string): readonly string[] | undefined => kept.columns[list],
  size: (name: string, otherwise: number): number => kept.sizes[name] ?? otherwise,
  setDensity(density: Density): void {
    change({ density });
    applyDensity();
  },
  setNavigation: (navigation: "wide" | "small"): void => change({ navigation }),
  setSingleKeys: (singleKeys: boolean): void => change({ singleKeys }),
  setZone: (zone: string): void => change({ zone }),
  setColumns(list: string, columns: readonly string[] | null): void {
    const others = Object.fromEntries(
      Object.entries(kept.columns).filter(([name]) => name !== list),
    );
    change({ columns: columns ? { ...others, [list]: [...columns] } : others });
  },
  setSize: (name: string, pixels: number): void =>
    change({ sizes: { ...kept.sizes, [name]: Math.round(pixels) } }),
};

/** Sets the density on the page, which the tokens read. */
export function applyDensity(): void {
  document.documentElement.dataset["density"] = preferences.density;
}
