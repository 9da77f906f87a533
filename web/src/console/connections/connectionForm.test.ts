// Late responses: after another connection was selected, or after the dialog was closed.
import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { describe, expect, it, vi } from "vitest";
import Connections from "./Connections.svelte";
import type { ConnectionStatus } from "../types";
import ConnectionForm from "./ConnectionForm.svelte";
import type { Connection, Form } from "./types";

const NAME = { name: "name", kind: "text", required: true, default: "" };
const FORM = { listener: [], destination: [NAME], definitions: {} } as unknown as Form;
const channelOf = (name: string) =>
  ({ name, sites: [], enabled: true, handshake_failures: [] }) as unknown as ConnectionStatus;
const settingsOf = (name: string): Connection => ({
  name,
  table: { name },
  in_force: null,
  in_file: true,
  history: [],
});

type Answer = (body: unknown) => void;

/** A service whose responses to some paths wait until the test releases them. */
function service(responses: Record<string, unknown>): Map<string, Answer[]> {
  const held = new Map<string, Answer[]>();
  vi.stubGlobal("fetch", (path: string) => {
    if (path in responses) return Promise.resolve(new Response(JSON.stringify(responses[path])));
    return new Promise((resolve) => {
      const answer: Answer = (body) => resolve(new Response(JSON.stringify(body)));
      held.set(path, [...(held.get(path) ?? []), answer]);
    });
  });
  return held;
}

const respond = async (held: Map<string, Answer[]>, path: string, body: unknown) => {
  await waitFor(() => expect(held.get(path)?.length).toBeGreaterThan(0));
  held.get(path)?.shift()?.(body);
};

describe("the settings of a connection", () => {
  it("are those that were selected last", async () => {
    const channels = { listeners: [], destinations: [channelOf("ris"), channelOf("pacs")] };
    const held = service({ "/console/api/channels": channels, "/console/api/connections": FORM });
    render(Connections, { may: () => true });
    await fireEvent.click(await screen.findByRole("button", { name: "Settings ris" }));
    await fireEvent.click(screen.getByRole("button", { name: "Settings pacs" }));
    const path = "/console/api/connections/destination/";
    await respond(held, `${path}pacs`, settingsOf("pacs"));
    await screen.findByRole("dialog", { name: /pacs/ });
    await respond(held, `${path}ris`, settingsOf("ris"));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(screen.queryByRole("dialog", { name: /ris/ })).toBeNull();
  });

  it("are saved once, and do not close a dialog that was opened meanwhile", async () => {
    const path = "/console/api/connections/destination/";
    const held = service({ [`${path}check`]: { mistakes: [], warnings: [] } });
    const onclose = vi.fn();
    const onchanged = vi.fn(() => Promise.resolve());
    const known = settingsOf("ris");
    const shown = render(ConnectionForm, {
      kind: "destination",
      form: FORM,
      known,
      onclose,
      onchanged,
    });
    await fireEvent.input(screen.getByLabelText("Reason for the audit trail"), {
      target: { value: "a test" },
    });
    const save = screen.getByRole("button", { name: "Save and activate" });
    await fireEvent.click(save);
    await fireEvent.click(save);
    await waitFor(() => expect(held.get(`${path}ris`)).toHaveLength(1));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(held.get(`${path}ris`)).toHaveLength(1);
    shown.unmount();
    await respond(held, `${path}ris`, { version: "1" });
    await waitFor(() => expect(onchanged).toHaveBeenCalled());
    expect(onclose).not.toHaveBeenCalled();
  });
});
