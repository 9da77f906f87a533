// Which microphones there are and which one is used (interface document, get_microphone_devices and
// change_microphone). Feature-detected: a host may have left `microphone` out of its `allow`.
import type { MicrophoneDevice } from "./contract";

const CHOSEN = "report-microphone";

/** The microphone that is asked for is none of those there are. */
export class MicrophoneProblem extends Error {
  readonly code = "unknown_device";
}

export interface Microphones {
  /** Returns those that the page may use: none where its host or the browser allows none. */
  list(): Promise<MicrophoneDevice[]>;
  /** Uses a device from now on; rejects when it is not there. */
  choose(deviceId: string): Promise<void>;
  /** Tells when another one is used from now on; returns what ends it. */
  watch(changed: () => void): () => void;
}

export interface MicrophoneSources {
  media: MediaDevices | undefined;
  /** Where the choice is kept; null where the browser keeps nothing for frames. */
  storage: Storage | null;
}

export function createMicrophones({ media, storage }: MicrophoneSources): Microphones {
  const watchers = new Set<() => void>();
  let chosen = storage?.getItem(CHOSEN) ?? "";

  async function inputs(): Promise<MediaDeviceInfo[]> {
    if (!media?.enumerateDevices) return [];
    const all = await media.enumerateDevices();
    return all.filter((each) => each.kind === "audioinput");
  }

  /** Browsers name devices only to pages that may listen: ask, and let go at once. */
  async function named(): Promise<MediaDeviceInfo[]> {
    const found = await inputs();
    if (found.every((each) => each.label && each.deviceId)) return found;
    try {
      const stream = await media?.getUserMedia({ audio: true });
      stream?.getTracks().forEach((track) => track.stop());
    } catch {
      return found.filter((each) => each.deviceId);
    }
    return inputs();
  }

  async function list(): Promise<MicrophoneDevice[]> {
    const found = await named();
    const active = found.find((each) => each.deviceId === chosen) ?? found[0];
    return found.map((each) => ({
      deviceId: each.deviceId,
      label: each.label,
      isActive: each === active,
    }));
  }

  return {
    list,
    async choose(deviceId) {
      const found = await named();
      if (!found.some((each) => each.deviceId === deviceId)) {
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

/** Returns the browser's storage, or null where reading it is refused already. */
export function storageOf(window: Window): Storage | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
