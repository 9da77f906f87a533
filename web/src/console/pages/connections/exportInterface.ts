// Downloads a connection with its definitions and code tables as a package.
import { saveFile } from "../../../shared/widgets/saveFile";
import { api, attempt } from "../../data/api";

export async function exportInterface(name: string): Promise<void> {
  const path = `/console/api/interfaces/export?names=${encodeURIComponent(name)}`;
  const found = await attempt(() => api.download(path));
  if (found) saveFile(found, `${name}.zip`, document);
}
