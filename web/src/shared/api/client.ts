// The HTTP client of the report service: JSON requests and responses; problem+json becomes an error.

/** The credentials: `token` is sent as bearer; null uses the account cookie. */
export interface Session {
  token: string | null;
}

/** An error response (problem+json), or `status` 0 if the service cannot be reached. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly body: Readonly<Record<string, unknown>>;

  constructor(status: number, code: string, detail: string, body: Record<string, unknown> = {}) {
    super(detail || code);
    this.name = "ApiProblem";
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.body = body;
  }
}

/** The timeout of a request in milliseconds; it then fails like a network error. */
export const ANSWER_WITHIN = 60_000;

export interface CallOptions {
  signal?: AbortSignal;
  /** The timeout of this request in milliseconds. */
  within?: number;
  /** Continues the request after the page has closed (64 kB at most). */
  keepalive?: boolean;
}

export interface Api {
  readonly session: Session;
  get<T>(path: string, options?: CallOptions): Promise<T>;
  post<T>(path: string, body?: unknown, options?: CallOptions): Promise<T>;
  put<T>(path: string, body?: unknown, options?: CallOptions): Promise<T>;
  patch<T>(path: string, body?: unknown, options?: CallOptions): Promise<T>;
  delete<T>(path: string, options?: CallOptions): Promise<T>;
  /** Returns the raw response, for exports, images and streams. No timeout. */
  raw(path: string, init?: RequestInit): Promise<Response>;
}

/** Creates a client; paths begin with "/". */
export function createApi(session: Session, fetcher: typeof fetch = fetch.bind(globalThis)): Api {
  async function raw(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (session.token) headers.set("Authorization", `Bearer ${session.token}`);
    try {
      return await fetcher(path, {
        ...init,
        headers,
        credentials: "same-origin",
        cache: "no-store",
      });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw unanswered(error);
    }
  }

  async function call<T>(
    method: string,
    path: string,
    body: unknown,
    options: CallOptions = {},
  ): Promise<T> {
    const { within = ANSWER_WITHIN, signal, ...rest } = options;
    const limit = AbortSignal.timeout(within);
    const either = signal ? AbortSignal.any([signal, limit]) : limit;
    const init: RequestInit = { method, ...rest, signal: either };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
      init.headers = { "Content-Type": "application/json" };
    }
    const response = await raw(path, init);
    if (!response.ok) throw await problemOf(response);
    const text = await response.text().catch((error: unknown) => {
      throw unanswered(error);
    });
    return (text ? JSON.parse(text) : undefined) as T;
  }

  return {
    session,
    get: (path, options) => call("GET", path, undefined, options),
    post: (path, body, options) => call("POST", path, body ?? {}, options),
    put: (path, body, options) => call("PUT", path, body ?? {}, options),
    patch: (path, body, options) => call("PATCH", path, body ?? {}, options),
    delete: (path, options) => call("DELETE", path, undefined, options),
    raw,
  };
}

const unanswered = (error: unknown): ApiProblem =>
  new ApiProblem(
    0,
    (error as Partial<Error>).name === "TimeoutError" ? "timeout" : "unreachable",
    "",
  );

async function problemOf(response: Response): Promise<ApiProblem> {
  try {
    const body = (await response.json()) as Record<string, unknown>;
    const text = (name: string) => (typeof body[name] === "string" ? (body[name] as string) : "");
    return new ApiProblem(response.status, text("code"), text("detail"), body);
  } catch {
    return new ApiProblem(response.status, "no_problem_body", "");
  }
}
