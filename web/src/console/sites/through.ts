// The administration of a site, as the reporting app has it, by the console's endpoints.
import type { Api } from "../../shared/api/client";
import { ACCOUNT } from "../../report/home/account.svelte";

const THERE = `${ACCOUNT}/admin/`;
const HERE = "/console/api/";
const way = (path: string) => (path.startsWith(THERE) ? HERE + path.slice(THERE.length) : path);

/** Gives a door that leads the app's administrative addresses to the console's. */
export function throughConsole(api: Api): Api {
  return {
    session: api.session,
    get: (path, options) => api.get(way(path), options),
    post: (path, body, options) => api.post(way(path), body, options),
    put: (path, body, options) => api.put(way(path), body, options),
    patch: (path, body, options) => api.patch(way(path), body, options),
    delete: (path, options) => api.delete(way(path), options),
    raw: (path, init) => api.raw(way(path), init),
  };
}
