// Responses of the engine (written by tests/bridge/engine/http/test_snapshots.py): the compiler compares
// their shapes with the types of the page, the tests check their values.
import { Editor } from "@tiptap/core";
import { describe, expect, it } from "vitest";
import type * as page from "./page";
import billing from "./snapshots/billing.json";
import checks from "./snapshots/checks.json";
import draft from "./snapshots/draft.json";
import files from "./snapshots/files.json";
import history from "./snapshots/history.json";
import macros from "./snapshots/macros.json";
import presence from "./snapshots/presence.json";
import prior from "./snapshots/prior.json";
import priors from "./snapshots/priors.json";
import shares from "./snapshots/shares.json";
import signed from "./snapshots/signed.json";
import templates from "./snapshots/templates.json";
import { rangeOf } from "./text/commands";
import { fromEditor, toEditor } from "./text/conversion";
import { canonical, plainText, type ReportDocument } from "./text/document";
import { SCHEMA } from "./text/schema";

/** A type as JSON files have it: literals are strings, documents have their own tests. */
type Loose<T> = T extends ReportDocument
  ? object
  : T extends string
    ? string
    : T extends readonly [infer A, infer B]
      ? (Loose<A> | Loose<B>)[]
      : T extends readonly (infer E)[]
        ? Loose<E>[]
        : T extends object
          ? { [K in keyof T]: Loose<T[K]> }
          : T;

const read = {
  draft: draft satisfies Loose<page.Page>,
  signed: signed satisfies Loose<page.Page>,
  presence: presence satisfies Loose<page.Presence>,
  priors: priors satisfies Loose<{ priors: page.PriorSummary[] }>,
  prior: prior satisfies Loose<Omit<page.Prior, "compare">>,
  history: history satisfies Loose<page.History>,
  checks: checks satisfies Loose<{ findings: page.Finding[] }>,
  templates: templates satisfies Loose<{ templates: page.Template[] }>,
  macros: macros satisfies Loose<{ macros: page.Macro[] }>,
  billing: billing satisfies Loose<page.BillingCodes>,
  shares: shares satisfies Loose<{ shares: page.Share[] }>,
};

const open = (document: object) =>
  new Editor({ extensions: SCHEMA, content: toEditor(document as ReportDocument) });

describe("the engine's responses", () => {
  it("pass the editor unchanged and have the engine's plain text", () => {
    for (const part of [read.draft, read.signed]) {
      const document = part.document as ReportDocument;
      expect(plainText(document)).toBe(part.content);
      const editor = open(document);
      expect(canonical(fromEditor(editor.state.doc))).toBe(canonical(document));
      editor.destroy();
    }
  });

  it("have findings whose positions the editor finds", () => {
    const editor = open(read.draft.document);
    expect(read.checks.findings.map((finding) => finding.check)).toEqual([
      "emptyField",
      "laterality",
      "suggestion",
    ]);
    for (const finding of read.checks.findings) {
      const range = rangeOf(editor.state.doc, finding);
      expect(range && editor.state.doc.textBetween(range.from, range.to)).toBe(finding.words);
    }
    editor.destroy();
  });

  it("have the status of the report and the permitted actions", () => {
    expect([read.draft.status, read.signed.status]).toEqual(["Preliminary", "Addendum"]);
    expect(read.draft.can).toEqual(["edit", "sign", "prelim"]);
    expect(read.signed.addenda.map((addendum) => addendum.state)).toEqual(["signed", "draft"]);
    expect(read.signed.html).toContain("<h3>Findings</h3>");
    expect(read.presence.version).toBe(read.draft.version);
  });

  it("have the contents of the panels", () => {
    expect(read.priors.priors.map((prior) => prior.date)).toEqual(["2025-01-10"]);
    expect(plainText(read.prior.document as ReportDocument)).toBe("Earlier.");
    expect(read.history.prelims.map((prelim) => prelim.tag)).toEqual(["R"]);
    expect(files.files.map((file) => file.kind)).toEqual(["keyImage"]);
    expect(read.templates.templates.map((template) => template.number)).toEqual([1]);
    expect(read.macros.macros.map((macro) => macro.trigger)).toEqual([".n"]);
    expect(read.billing.cpt?.Code).toBe("73560");
    expect(read.shares.shares).toHaveLength(1);
  });
});
