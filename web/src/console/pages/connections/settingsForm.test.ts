// The settings form: what changes, what is kept, and that they are saved once.
import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { beforeAll, expect, it, vi } from "vitest";
import { addTexts } from "../../texts";
import configure from "../../texts/configure.json";
import connections from "../../texts/connections.json";
import SettingsForm from "./SettingsForm.svelte";
import type { Connection, Form } from "./settingTypes";

beforeAll(() => {
  addTexts(connections);
  addTexts(configure);
});
const field = (name: string, kind: string, value: unknown, required = false) => ({
  ...{ name, kind, default: value, required, choices: [], help: "" },
});
const FORM = {
  listener: [],
  destination: [
    field("name", "text", "", true),
    field("address", "text", "", true),
    field("sites", "words", ["*"]),
    field("ack_timeout", "seconds", 30),
  ],
  definitions: {},
} as unknown as Form;
const known = (name: string): Connection => ({
  name,
  table: { name, address: "10.0.0.1:2575", ack_timeout: "5s" },
  in_force: { version: "1", at: 0, actor: "", origin: "activate", reason: "" },
  ...{ in_file: true, history: [] },
});
const shown = (name: string, onsaved = vi.fn()) =>
  render(SettingsForm, {
    ...{ kind: "destination" as const, form: FORM, known: known(name), sites: [], onsaved },
  });

/** A service that accepts all settings; it holds what is saved until the test releases it. */
function service(): { saved: string[]; release: () => void } {
  const held: { saved: string[]; release: () => void } = { saved: [], release: () => undefined };
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    const answer = (body: unknown) => new Response(JSON.stringify(body));
    if (path.endsWith("/check")) return Promise.resolve(answer({ mistakes: [], warnings: [] }));
    held.saved.push(String(init.body));
    return new Promise((resolve) => (held.release = () => resolve(answer({ version: "2" }))));
  });
  return held;
}

it("lists what changes, and resets a setting to its default", async () => {
  service();
  shown("ris");
  expect(screen.getByText("Nothing is changed.")).toBeTruthy();
  await fireEvent.click(
    screen.getByRole("button", { name: "Reset Acknowledgment timeout to 30s" }),
  );
  expect(screen.getByText("5s").tagName).toBe("DEL");
  expect(screen.getByText("30s").tagName).toBe("INS");
});

it("keeps what was typed when another page was visited", async () => {
  service();
  const first = shown("pacs");
  await fireEvent.input(screen.getByLabelText("Host and port"), {
    target: { value: "10.0.0.2:1" },
  });
  first.unmount();
  shown("pacs");
  expect((screen.getByLabelText("Host and port") as HTMLInputElement).value).toBe("10.0.0.2:1");
  await fireEvent.click(screen.getByRole("button", { name: "Discard" }));
  expect((screen.getByLabelText("Host and port") as HTMLInputElement).value).toBe("10.0.0.1:2575");
});

it("saves once, with its reason and the version that it is based on", async () => {
  const held = service();
  const onsaved = vi.fn();
  shown("his", onsaved);
  const save = screen.getByRole("button", { name: "Save and activate" });
  expect((save as HTMLButtonElement).disabled).toBe(true);
  await fireEvent.input(screen.getByLabelText("Reason for the audit trail"), {
    target: { value: "a test" },
  });
  await fireEvent.click(save);
  await fireEvent.click(save);
  await waitFor(() => expect(held.saved).toHaveLength(1));
  expect(JSON.parse(held.saved[0] ?? "")).toMatchObject({ reason: "a test", begun_on: "1" });
  held.release();
  await waitFor(() => expect(onsaved).toHaveBeenCalledExactlyOnceWith("his"));
});
