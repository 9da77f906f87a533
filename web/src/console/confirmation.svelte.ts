// Proves again who is here: requests that need it wait for one dialog, and are repeated once.

const REQUIRED = "reauthentication_required";

let asked = $state(false);
let answers: ((confirmed: boolean) => void)[] = [];

export const confirmation = {
  /** Whether the dialog is open. */
  get asked(): boolean {
    return asked;
  },
  answer(confirmed: boolean): void {
    asked = false;
    const waiting = answers;
    answers = [];
    for (const each of waiting) each(confirmed);
  },
};

/** Sends requests; one that needs a fresh proof of identity is repeated once after the dialog. */
export function confirming(fetcher: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await fetcher(input, init);
    if (response.status !== 403 || !(await isRequired(response))) return response;
    asked = true;
    const confirmed = await new Promise<boolean>((resolve) => answers.push(resolve));
    return confirmed ? fetcher(input, init) : response;
  };
}

async function isRequired(response: Response): Promise<boolean> {
  try {
    const body = (await response.clone().json()) as { code?: unknown };
    return body.code === REQUIRED;
  } catch {
    return false;
  }
}
