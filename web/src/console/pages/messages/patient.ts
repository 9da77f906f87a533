// Whom and what a message is about, as its definition understood it; for the head of its page.
import type { Content, Trace } from "../../data/api-types";
import { dayOf, leavesOf } from "../../hl7/places";

export interface About {
  patient: string;
  controlId: string;
}

/** "DOE^JANE" as "DOE, JANE". */
const person = (name: string) => name.split("^").slice(0, 2).filter(Boolean).join(", ");

export function aboutOf(content: Content, trace: Trace | null): About {
  const tag = (name: string) =>
    trace?.events[0]?.targets.find((target) => target.target === `tag:${name}`)?.value ?? "";
  const text = (place: string) =>
    content.tree
      .flatMap((segment) => [...segment.children, ...leavesOf(segment)])
      .find((node) => node.place === place)?.text ?? "";
  const name = tag("PatientName") || text("PID-5[1]") || text("PID-5");
  const mrn = tag("PatientMRN");
  return {
    patient: [person(name), tag("PatientSex"), dayOf(tag("PatientBirthDate")), mrn && `MRN ${mrn}`]
      .filter(Boolean)
      .join(" · "),
    controlId: text("MSH-10"),
  };
}
