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

it("marks a report that was not made here, with its versions and its file", async () => {
  const version = (number: number, status: string, text: string) => ({
    ...{ version: number, status, at: 1_800_000_000_000, author: "Nora Night" },
    ...{ pdfs: number === 2 ? 1 : 0, omitted: number === 2 ? ["image JPEG"] : [] },
    document: fromText(text),
  });
  const outside = {
    ...prior("outside-1", "CT chest"),
    outside: { sender: "NIGHTREADS", status: "corrected", versions: 2, withdrawn: false },
    versions: [version(2, "corrected", "Corrected text."), version(1, "final", "First text.")],
  } as unknown as Prior;
  const asked: number[] = [];
  const endpoints = {
    priors: () => Promise.resolve({ priors: [outside] }),
    prior: () => Promise.resolve(outside),
    priorPdf: (_: string, number: number) => {
      asked.push(number);
      return Promise.reject(new Error("refused"));
    },
  };
  const controller = { endpoints, page: null } as unknown as ReportController;
  render(Priors, { controller, compare: () => undefined });
  await fireEvent.click(await screen.findByRole("button", { name: /CT chest.*Not made here/s }));
  await screen.findByText("Corrected text.");
  expect(screen.getByText(/From NIGHTREADS/, { selector: "p:not(.version p)" })).toBeTruthy();
  expect(screen.getByText("First text.").closest("details")?.open).toBe(false);
  expect(screen.getByText("Not shown: image JPEG")).toBeTruthy();
  await fireEvent.click(screen.getByRole("button", { name: "Save the PDF" }));
  await screen.findByRole("alert");
  expect(asked).toEqual([2]);
});

it("shows an addendum with the version that it completes, and each file", async () => {
  const version = (number: number, status: string, text: string) => ({
    ...{ version: number, status, at: 1_800_000_000_000, author: "" },
    ...{ pdfs: number === 2 ? 2 : 0, omitted: [], document: fromText(text) },
  });
  const outside = {
    ...prior("outside-1", "CT chest"),
    outside: { sender: "NIGHTREADS", status: "addendum", versions: 3, withdrawn: false },
    added: 1,
    versions: [
      version(3, "addendum", "Added."),
      version(2, "final", "Whole text."),
      version(1, "preliminary", "First text."),
    ],
  } as unknown as Prior;
  const asked: number[][] = [];
  const endpoints = {
    priors: () => Promise.resolve({ priors: [outside] }),
    prior: () => Promise.resolve(outside),
    priorPdf: (_: string, number: number, file: number) => {
      asked.push([number, file]);
      return Promise.reject(new Error("refused"));
    },
  };
  const controller = { endpoints, page: null } as unknown as ReportController;
  render(Priors, { controller, compare: () => undefined });
  await fireEvent.click(await screen.findByRole("button", { name: /CT chest.*Not made here/s }));
  expect((await screen.findByText("Added.")).closest("details")).toBeNull();
  expect(screen.getByText("Whole text.").closest("details")).toBeNull();
  expect(screen.getByText("First text.").closest("details")).not.toBeNull();
  await fireEvent.click(screen.getByRole("button", { name: "Save the PDF 2/2" }));
  await screen.findByRole("alert");
  expect(asked).toEqual([[2, 2]]);
});

it("does not compare a report that its sender has withdrawn", async () => {
  const withdrawn = {
    ...prior("outside-1", "CT chest"),
    outside: { sender: "NIGHTREADS", status: "withdrawn", versions: 1, withdrawn: true },
    versions: [],
  } as unknown as Prior;
  const endpoints = {
    priors: () => Promise.resolve({ priors: [withdrawn] }),
    prior: () => Promise.resolve(withdrawn),
  };
  const controller = { endpoints, page: { autoCompare: true } } as unknown as ReportController;
  render(Priors, { controller, compare: () => undefined });
  await fireEvent.click(await screen.findByRole("button", { name: /withdrawn by its sender/ }));
  await screen.findByText("Not made here");
  expect(screen.queryByRole("button", { name: "Compare" })).toBeNull();
});
