// What people and hosts do to the report: sign, recall, preliminary, addenda. Each rejects with
// the engine's refusal; the page's buttons go through `Desk.act`, the host's actions through here.
import { ApiProblem } from "../../../shared/api/client";
import { finished } from "../leaving";
import type { Deed } from "../endpoints";
import type { Finding } from "../page";
import { suggestions } from "../text/commands";
import type { Desk } from "./desk.svelte";
import type { TextPart } from "./part.svelte";

const version = (desk: Desk): number => desk.page?.version ?? 0;

const signing = new WeakMap<Desk, Promise<void>>();

export interface SignOptions {
  /** The user has answered the question before signing. */
  asked?: boolean;
  /** Signed by a key, which is pressed by mistake more easily than a button. */
  byKey?: boolean;
}

/**
 * Signs, unless there is something to ask first: findings of the checks, suggested text that
 * nobody has accepted, or the site's confirmation. Callers share a signature that is under way.
 */
export function sign(desk: Desk, options: SignOptions = {}): Promise<void> {
  const running = signing.get(desk);
  if (running) return running;
  const mine = signOnce(desk, options).finally(() => signing.delete(desk));
  signing.set(desk, mine);
  return mine;
}

async function signOnce(desk: Desk, { asked = false, byKey = false }: SignOptions): Promise<void> {
  await finished();
  await desk.flush();
  if (!asked && desk.report) {
    const { findings } = await desk.endpoints.checks();
    const confirm = byKey && (desk.page?.confirmSigning ?? false);
    ask(desk, desk.report, findings, confirm, () => sign(desk, { asked: true }));
  }
  await desk.perform(() => desk.endpoints.sign(version(desk)));
  desk.question = null;
}

/** Throws `checks_pending`, and opens the dialog, when there is something to ask before signing. */
function ask(
  desk: Desk,
  part: TextPart,
  found: Finding[],
  confirm: boolean,
  sign: () => Promise<void>,
): void {
  const known = found.some((each) => /suggest/i.test(each.check));
  const findings = known ? found : [...found, ...unaccepted(part)];
  if (!findings.length && !confirm) return;
  desk.question = { part, findings, sign };
  throw new ApiProblem(400, "checks_pending", "");
}

/** Returns the suggested text that nobody has accepted, as findings. */
function unaccepted({ editor }: TextPart): Finding[] {
  const doc = editor?.state.doc;
  if (!doc) return [];
  return suggestions(doc).map((range) => ({
    check: "suggestion",
    behaviour: "alert",
    words: doc.textBetween(range.from, range.to, " "),
    range,
  }));
}

export const signNow = (desk: Desk) => desk.perform(() => desk.endpoints.signNow(version(desk)));

export const unsign = (desk: Desk) => desk.perform(() => desk.endpoints.unsign());

export async function prelim(desk: Desk, group: string, tag: string): Promise<void> {
  await finished();
  await desk.perform(() => desk.endpoints.prelim(version(desk), group, tag));
}

export const createAddendum = (desk: Desk) => desk.perform(() => desk.endpoints.createAddendum());

export const cancelAddendum = (desk: Desk) => cancel(desk);

/** What was typed in the addendum goes with it: it is not saved first. */
const cancel = (desk: Desk) =>
  throwAway(desk, desk.addendum, () => desk.endpoints.cancelAddendum());

async function throwAway(desk: Desk, part: TextPart | null, deed: Deed): Promise<void> {
  const carry = () => desk.carry(deed);
  await (part ? part.throwAway(carry) : carry());
}

export async function signAddendum(desk: Desk, { asked = false } = {}): Promise<void> {
  await finished();
  await desk.flush();
  if (!asked && desk.addendum) {
    ask(desk, desk.addendum, [], false, () => signAddendum(desk, { asked: true }));
  }
  await desk.perform(() => {
    const draft = desk.page?.addenda.findLast((each) => each.state === "draft");
    return desk.endpoints.signAddendum(draft?.version ?? 0);
  });
  desk.question = null;
}

export const releaseAddendum = (desk: Desk) => desk.perform(() => desk.endpoints.releaseAddendum());

export const unsignAddendum = (desk: Desk) => desk.perform(() => desk.endpoints.unsignAddendum());

/** Throws the draft away, with what was typed and not saved. */
export async function discard(desk: Desk): Promise<void> {
  await throwAway(desk, desk.report, () => desk.endpoints.discard());
  desk.close();
}
