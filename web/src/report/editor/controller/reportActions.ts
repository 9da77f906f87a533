// The actions of users and hosts on a report: sign, recall, preliminary, addenda. Each rejects with
// the refusal of the service. Buttons call them through `ReportController.act`, hosts directly.
import { ApiProblem } from "../../../shared/api/client";
import { finished } from "../beforeLeave";
import type { PageAction } from "../endpoints";
import type { Finding } from "../page";
import { suggestions } from "../text/commands";
import type { ReportController } from "./reportController.svelte";
import type { TextPart } from "./textPart.svelte";

const version = (controller: ReportController): number => controller.page?.version ?? 0;

const signing = new WeakMap<ReportController, Promise<void>>();

export interface SignOptions {
  /** The user has answered the question before signing. */
  asked?: boolean;
  /** Signed by a key, which is pressed by mistake more easily than a button. */
  byKey?: boolean;
}

/**
 * Signs, unless the user must be asked first: check findings, suggested text that
 * is not accepted, or the site's confirmation. Concurrent callers share one signing.
 */
export function sign(controller: ReportController, options: SignOptions = {}): Promise<void> {
  const running = signing.get(controller);
  if (running) return running;
  const mine = signOnce(controller, options).finally(() => signing.delete(controller));
  signing.set(controller, mine);
  return mine;
}

async function signOnce(
  controller: ReportController,
  { asked = false, byKey = false }: SignOptions,
): Promise<void> {
  await finished();
  await controller.flush();
  if (!asked && controller.report) {
    const { findings } = await controller.endpoints.checks();
    const confirm = byKey && (controller.page?.confirmSigning ?? false);
    ask(controller, controller.report, findings, confirm, () => sign(controller, { asked: true }));
  }
  await controller.perform(() => controller.endpoints.sign(version(controller)));
  controller.question = null;
}

/** Opens the dialog and throws `checks_pending` if the user must be asked before signing. */
function ask(
  controller: ReportController,
  part: TextPart,
  found: Finding[],
  confirm: boolean,
  sign: () => Promise<void>,
): void {
  const known = found.some((one) => /suggest/i.test(one.check));
  const findings = known ? found : [...found, ...unaccepted(part)];
  if (!findings.length && !confirm) return;
  controller.question = { part, findings, sign };
  throw new ApiProblem(400, "checks_pending", "");
}

/** Returns the suggested text that is not accepted, as findings. */
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

export const signNow = (controller: ReportController) =>
  controller.perform(() => controller.endpoints.signNow(version(controller)));

export const unsign = (controller: ReportController) =>
  controller.perform(() => controller.endpoints.unsign());

export async function prelim(
  controller: ReportController,
  group: string,
  tag: string,
): Promise<void> {
  await finished();
  await controller.perform(() => controller.endpoints.prelim(version(controller), group, tag));
}

export const createAddendum = (controller: ReportController) =>
  controller.perform(() => controller.endpoints.createAddendum());

export const cancelAddendum = (controller: ReportController) => cancel(controller);

/** Discards unsaved text of the addendum, too. */
const cancel = (controller: ReportController) =>
  throwAway(controller, controller.addendum, () => controller.endpoints.cancelAddendum());

async function throwAway(
  controller: ReportController,
  part: TextPart | null,
  action: PageAction,
): Promise<void> {
  const carry = () => controller.performWithoutSaving(action);
  await (part ? part.throwAway(carry) : carry());
}

export async function signAddendum(
  controller: ReportController,
  { asked = false, byKey = false }: SignOptions = {},
): Promise<void> {
  await finished();
  await controller.flush();
  if (!asked && controller.addendum) {
    const { findings } = await controller.endpoints.checks(true);
    const confirm = byKey && (controller.page?.confirmSigning ?? false);
    ask(controller, controller.addendum, findings, confirm, () =>
      signAddendum(controller, { asked: true }),
    );
  }
  await controller.perform(() => {
    const draft = controller.page?.addenda.findLast((addendum) => addendum.state === "draft");
    return controller.endpoints.signAddendum(draft?.version ?? 0);
  });
  controller.question = null;
}

export const releaseAddendum = (controller: ReportController) =>
  controller.perform(() => controller.endpoints.releaseAddendum());

export const unsignAddendum = (controller: ReportController) =>
  controller.perform(() => controller.endpoints.unsignAddendum());

/** Discards the draft and its unsaved text. */
export async function discard(controller: ReportController): Promise<void> {
  await throwAway(controller, controller.report, () => controller.endpoints.discard());
  controller.close();
}
