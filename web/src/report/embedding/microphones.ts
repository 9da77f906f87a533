// The available microphones and the selected one (report service interface, get_microphone_devices and
// change_microphone). Feature-detected: the host's `allow` may lack `microphone`.
import type { MicrophoneDevice } from "./contract";

const CHOSEN = "report-microphone";

/** The requested microphone does not exist. */
export class MicrophoneProblem extends Error {
  readonly code = "unknown_device";
}

export interface Microphones {
  /** Returns the microphones that host and browser permit the page to use. */
  list(): Promise<MicrophoneDevice[]>;
  /** Selects a device; rejects if it does not exist. */
  choose(deviceId: string): Promise<void>;
  /** Subscribes to changes of the selected device; returns the unsubscribe function. */
  watch(changed: () => void): () => void;
}

export interface MicrophoneSources {
  media: MediaDevices | undefined;
  /** The storage of the choice; null if the browser blocks storage in frames. */
  storage: Storage | null;
}

export function createMicrophones({ media, storage }: MicrophoneSources): Microphones {
  const watchers = new Set<() => void>();
  let chosen = storage?.getItem(CHOSEN) ?? "";

  async function inputs(): Promise<MediaDeviceInfo[]> {
    if (!media?.enumerateDevices) return [];
    const all = await media.enumerateDevices();
    return all.filter((device) => device.kind === "audioinput");
  }

  /** Browsers name devices only after permission: requests it, and closes the stream at once. */
  async function named(): Promise<MediaDeviceInfo[]> {
    const found = await inputs();
    if (found.every((device) => device.label && device.deviceId)) return found;
    try {
      const stream = await media?.getUserMedia({ audio: true });
      stream?.getTracks().forEach((track) => track.stop());
    } catch {
      return found.filter((device) => device.deviceId);
    }
    return inputs();
  }

  async function list(): Promise<MicrophoneDevice[]> {
    const found = await named();
    const active = found.find((device) => device.deviceId === chosen) ?? found[0];
    return found.map((device) => ({
      deviceId: device.deviceId,
      label: device.label,
      isActive: device === active,
    }));
  }

  return {
    list,
    async choose(deviceId) {
      const found = await named();
      if (!found.some((device) => device.deviceId === deviceId)) {
        throw new MicrophoneProblem("no such microphone");
      }
      chosen = deviceId;
      storage?.setItem(CHOSEN, deviceId);
      for (const changed of watchers) changed();
    },
    watch(changed) {
      watchers.add(changed);
      return () => watchers.delete(changed);
    },
  };
}

/** Returns the browser's storage, or null if the browser does not permit access. */
export function storageOf(window: Window): Storage | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
