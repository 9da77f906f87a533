// Carries over what the user typed into the plain login form of the server-rendered page before
// the app replaced it.

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
  /** Copies the values to the app's form and restores the cursor. */
  give(form: HTMLElement): void {
    FIELDS.forEach((name, place) => {
      const field = find(form, name);
      if (field && values[place]) field.value = values[place];
    });
    if (last) find(form, last)?.focus();
    [values, last] = [[], ""];
  },
};
