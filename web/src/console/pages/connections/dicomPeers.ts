// DICOM peers: how the console asks for them, their state in one word, and the form for a new one.
import type { DicomPeer, DicomRefusal } from "../../data/api-types";
import { api } from "../../data/api";
import { go } from "../../frame/go";
import { href } from "../../frame/route.svelte";
import { hasText, t } from "../../texts";
import type { Tone } from "../../ui/states";
import { settingsDrafts } from "./settingsDrafts";
import { valuesOf } from "./settingsTable";
import type { Form } from "./settingTypes";

export const PORT_PATH = "/console/api/dicom-peers";
export const PORT_POLL_MS = 5_000;

/** The state of a peer: the end of the key of its label, and its tone. */
export function peerState(peer: DicomPeer): { word: string; tone: Tone } {
  if (!peer.enabled) return { word: "off", tone: "neutral" };
  if (peer.refused > 0) return { word: "refused", tone: "amber" };
  if (peer.associated_at === null && peer.requested_at === null)
    return { word: "new", tone: "neutral" };
  return { word: "ok", tone: "ok" };
}

/** Why a connection or request was refused; a request is named with its status. */
export function reasonText(reason: string): string {
  const key = `dicom.reason_${reason}`;
  return hasText(key) ? t(key) : reason;
}

/** Requests that are answered with steps. */
const QUERIES = ["C-FIND", "MWL-RS", "UPS-RS"];

/** The last request of a peer; a query with the number of its answers. */
export const requestText = ({ request, answers }: DicomPeer): string =>
  QUERIES.includes(request) ? `${request} · ${t("dicom.answers", { count: answers })}` : request;

export const mayText = (may: readonly string[]): string =>
  may.map((service) => t(`dicom.may_${service}`)).join(", ");

/** Whether a new peer would admit who was refused. */
export const mayBecomePeer = (refusal: DicomRefusal): boolean =>
  !refusal.is_peer && refusal.title !== "" && refusal.reason === "calling title";

/** Opens the form of a new peer, filled in with who was refused. */
export async function addAsPeer({ title, address }: DicomRefusal): Promise<void> {
  const form = await api.get<Form>("/console/api/connections");
  settingsDrafts.keep("dicom-peer ", {
    values: valuesOf(form["dicom-peer"], { ae_title: title, addresses: [address] }),
    ...{ transport: "mllp", where: "", secure: false, begunOn: "" },
  });
  go(href("new_connection", {}, new URLSearchParams({ kind: "dicom-peer" })));
}
