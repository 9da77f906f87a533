// Hand microphones by WebHID: which of their buttons does what. The devices are dictation_support's.
import type { ButtonEvent, DictationDeviceManager, DictationDevice } from "dictation_support";

export interface HandMicrophones {
  /** Asks the user for one; their names, or none. Needs a click. */
  connect(): Promise<string[]>;
  close(): void;
}

export type HandDeed = "toggle" | "off" | "next" | "previous";

/** Bits of ButtonEvent, and what pressing them does. SpeechMikes with a slider press PLAY and STOP. */
export const BUTTONS: Readonly<Record<number, HandDeed>> = {
  32: "toggle", // RECORD
  256: "off", // STOP
  4: "next", // FORWARD
  1: "previous", // REWIND
  131072: "next", // TAB_FORWARD
  65536: "previous", // TAB_BACKWARD
  16384: "next", // EOL_PRIO
};

/** Returns what a change of pressed buttons asks for: only what was not pressed before. */
export function deedsOf(pressed: number, before: number): HandDeed[] {
  const fresh = pressed & ~before;
  return Object.entries(BUTTONS).flatMap(([bit, deed]) => (fresh & Number(bit) ? [deed] : []));
}

/** Returns the hand microphones, or null in a browser or a frame without WebHID. */
export async function handMicrophones(
  hid: unknown,
  act: (deed: HandDeed) => void,
): Promise<HandMicrophones | null> {
  if (!hid) return null;
  const support = await import("dictation_support");
  const manager: DictationDeviceManager = new support.DictationDeviceManager();
  const pressed = new Map<number, number>();
  manager.addButtonEventListener((device: DictationDevice, bits: ButtonEvent) => {
    for (const deed of deedsOf(bits, pressed.get(device.id) ?? 0)) act(deed);
    pressed.set(device.id, bits);
  });
  await manager.init();
  return {
    connect: async () =>
      (await manager.requestDevice()).map((device) => device.hidDevice.productName),
    close: () => void manager.shutdown(),
  };
}
