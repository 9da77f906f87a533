// What people and hosts do to the report: sign, recall, preliminary, addenda. Each rejects with
// the engine's refusal; the page's buttons go through `Desk.act`, the host's actions through here.
import { ApiProblem } from "../../../shared/api/client";
import { finished } from "../leaving";
import type { Deed } from "../endpoints";
import type { Desk } from "./desk.svelte";
import type { TextPart } from "./part.svelte";

const version = (desk: Desk): number => desk.page?.version ?? 0;

const signing = new WeakMap<Desk, Promise<void>>();

/**
 * Signs, unless the checks find something that a person has to look at first. Whoever asks while
 * that is under way gets the same answer: a second signature would be refused.
 */
export function sign(desk: Desk, { looked = false } = {}): Promise<void> {
  const running = signing.get(desk);
  if (running) return running;
  const mine = signOnce(desk, looked).finally(() => signing.delete(desk));
  signing.set(desk, mine);
  return mine;
}

async function signOnce(desk: Desk, looked: boolean): Promise<void> {
  await finished();
  await desk.flush();
  if (!looked) {
    const { findings } = await desk.endpoints.checks();
    if (findings.length) {
      desk.findings = findings;
      throw new ApiProblem(400, "checks_pending", "");
    }
  }
  await desk.perform(() => desk.endpoints.sign(version(desk)));
  desk.findings = null;
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

export async function signAddendum(desk: Desk): Promise<void> {
  await finished();
  await desk.perform(() => {
    const draft = desk.page?.addenda.findLast((each) => each.state === "draft");
    return desk.endpoints.signAddendum(draft?.version ?? 0);
  });
}

export const releaseAddendum = (desk: Desk) => desk.perform(() => desk.endpoints.releaseAddendum());

export const unsignAddendum = (desk: Desk) => desk.perform(() => desk.endpoints.unsignAddendum());

/** Throws the draft away, with what was typed and not saved. */
export async function discard(desk: Desk): Promise<void> {
  await throwAway(desk, desk.report, () => desk.endpoints.discard());
  desk.close();
}
