// Hand microphones over WebHID: the actions of their buttons. dictation_support drives the devices.
import type { ButtonEvent, DictationDeviceManager, DictationDevice } from "dictation_support";

export interface HandMicrophones {
  /** Lets the user select a device; returns device names. Requires a click. */
  connect(): Promise<string[]>;
  close(): void;
}

export type MicrophoneAction = "toggle" | "off" | "next" | "previous";

/** Bits of ButtonEvent, and what pressing them does. SpeechMikes with a slider press PLAY and STOP. */
export const BUTTONS: Readonly<Record<number, MicrophoneAction>> = {
  32: "toggle", // RECORD
  256: "off", // STOP
  4: "next", // FORWARD
  1: "previous", // REWIND
  131072: "next", // TAB_FORWARD
  65536: "previous", // TAB_BACKWARD
  16384: "next", // EOL_PRIO
};

/** Returns the actions of newly pressed buttons. */
export function actionsOf(pressed: number, before: number): MicrophoneAction[] {
  const fresh = pressed & ~before;
  return Object.entries(BUTTONS).flatMap(([bit, action]) => (fresh & Number(bit) ? [action] : []));
}

/** Returns the hand microphones, or null in a browser or a frame without WebHID. */
export async function handMicrophones(
  hid: unknown,
  act: (action: MicrophoneAction) => void,
): Promise<HandMicrophones | null> {
  if (!hid) return null;
  const support = await import("dictation_support");
  const manager: DictationDeviceManager = new support.DictationDeviceManager();
  const pressed = new Map<number, number>();
  manager.addButtonEventListener((device: DictationDevice, bits: ButtonEvent) => {
    for (const action of actionsOf(bits, pressed.get(device.id) ?? 0)) act(action);
    pressed.set(device.id, bits);
  });
  await manager.init();
  return {
    connect: async () =>
      (await manager.requestDevice()).map((device) => device.hidDevice.productName),
    close: () => void manager.shutdown(),
  };
}
