// Lets the administration pages of the report app use the endpoints of the console.
import type { Api } from "../../../shared/api/client";
import { ACCOUNT } from "../../../report/home/account.svelte";

const APP_PATH = `${ACCOUNT}/admin/`;
const CONSOLE_PATH = "/console/api/";
const mapped = (path: string) =>
  path.startsWith(APP_PATH) ? CONSOLE_PATH + path.slice(APP_PATH.length) : path;

/** Returns an API client that maps the administration paths of the app to those of the console. */
export function siteApi(api: Api): Api {
  return {
    session: api.session,
    get: (path, options) => api.get(mapped(path), options),
    post: (path, body, options) => api.post(mapped(path), body, options),
    put: (path, body, options) => api.put(mapped(path), body, options),
    patch: (path, body, options) => api.patch(mapped(path), body, options),
    delete: (path, options) => api.delete(mapped(path), options),
    raw: (path, init) => api.raw(mapped(path), init),
  };
}
