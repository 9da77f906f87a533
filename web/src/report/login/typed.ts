// What was typed into the plain login form, which the engine sends with the page, before the app
// had come to take its place.

const FIELDS = ["email", "password"] as const;
const find = (within: HTMLElement, name: string) =>
  within.querySelector<HTMLInputElement>(`[name=${name}]`);

let values: readonly string[] = [];
let last = "";

export const typed = {
  take(plain: HTMLElement): void {
    values = FIELDS.map((name) => find(plain, name)?.value ?? "");
    last = FIELDS.find((name) => find(plain, name) === document.activeElement) ?? "";
  },
  /** Puts it into the app's form, and the cursor where it stood. */
  give(form: HTMLElement): void {
    FIELDS.forEach((name, place) => {
      const field = find(form, name);
      if (field && values[place]) field.value = values[place];
    });
    if (last) find(form, last)?.focus();
    [values, last] = [[], ""];
  },
};
