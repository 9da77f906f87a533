// The page of what an audit event is about.
import type { PageName } from "../../frame/routes";

interface Place {
  page: PageName;
  params: Readonly<Record<string, string>>;
}

/** Returns the page of a target such as `message 17`; null: it has none. */
export function placeOf(subject: string): Place | null {
  const at = subject.indexOf(" ");
  const [kind, name] = [subject.slice(0, at), subject.slice(at + 1)];
  if (at < 0 || !name) return null;
  if (kind === "message" || kind === "delivery")
    return /^\d+$/.test(name) ? { page: kind, params: { id: name } } : null;
  if (kind === "mapping") return { page: "mapping", params: { name } };
  if (kind === "listener" || kind === "destination")
    return { page: "connection", params: { kind, name } };
  return kind === "site" ? { page: "site", params: { id: name } } : null;
}
