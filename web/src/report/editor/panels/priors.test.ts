import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { expect, it } from "vitest";
import type { ReportController } from "../controller/reportController.svelte";
import type { Prior } from "../page";
import { fromText } from "../text/document";
import Priors from "./Priors.svelte";

const prior = (reportId: string, StudyDescription: string): Prior =>
  ({
    ...{ reportId, StudyDescription, document: fromText(`text of ${reportId}`) },
    ...{ accessions: [], addenda: [], date: "", StudyDate: "", signedBy: "", compare: false },
  }) as unknown as Prior;

it("shows the prior that was selected last, even if another one arrives later", async () => {
  const all = [prior("r1", "CT chest"), prior("r2", "CT head")];
  const answers = new Map<string, (prior: Prior) => void>();
  const endpoints = {
    priors: () => Promise.resolve({ priors: all }),
    prior: (id: string) => new Promise<Prior>((resolve) => answers.set(id, resolve)),
  };
  const controller = { endpoints, page: null } as unknown as ReportController;
  render(Priors, { controller, compare: () => undefined });
  await fireEvent.click(await screen.findByRole("button", { name: /CT chest/ }));
  await fireEvent.click(screen.getByRole("button", { name: /CT head/ }));
  answers.get("r2")?.(all[1] as Prior);
  await screen.findByText("text of r2");
  answers.get("r1")?.(all[0] as Prior);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await waitFor(() => expect(screen.getByText("text of r2")).toBeTruthy());
  expect(screen.queryByText("text of r1")).toBeNull();
});
