// Requests that require a recent proof of identity wait for one dialog and are then repeated once.

const REQUIRED = "reauthentication_required";

let open = $state(false);
let waiting: ((confirmed: boolean) => void)[] = [];

export const reauthentication = {
  /** Whether the dialog is open. */
  get open(): boolean {
    return open;
  },
  finish(confirmed: boolean): void {
    open = false;
    const requests = waiting;
    waiting = [];
    for (const request of requests) request(confirmed);
  },
};

/** Wraps `fetch`: a request refused for lack of a recent confirmation is repeated after the dialog. */
export function withReauthentication(fetcher: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await fetcher(input, init);
    if (response.status !== 403 || !(await requiresConfirmation(response))) return response;
    open = true;
    const confirmed = await new Promise<boolean>((resolve) => waiting.push(resolve));
    return confirmed ? fetcher(input, init) : response;
  };
}

async function requiresConfirmation(response: Response): Promise<boolean> {
  try {
    const body = (await response.clone().json()) as { code?: unknown };
    return body.code === REQUIRED;
  } catch {
    return false;
  }
}
