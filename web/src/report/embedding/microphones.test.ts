// @vitest-environment node
import { expect, it } from "vitest";
import { createMicrophones } from "./microphones";

const device = (deviceId: string, label: string, kind = "audioinput") =>
  ({ deviceId, label, kind }) as MediaDeviceInfo;

function media(before: MediaDeviceInfo[], after = before, granted = true) {
  let asked = false;
  const stream = { getTracks: () => [] };
  return {
    enumerateDevices: () => Promise.resolve(asked && granted ? after : before),
    getUserMedia: () => {
      asked = true;
      return granted ? Promise.resolve(stream) : Promise.reject(new Error("denied"));
    },
  } as unknown as MediaDevices;
}

const TWO = [device("a", "Desk"), device("b", "Hand"), device("c", "Camera", "videoinput")];

it("lists microphones; the selected one is active", async () => {
  const microphones = createMicrophones({ media: media(TWO), storage: null });
  expect(await microphones.list()).toEqual([
    { deviceId: "a", label: "Desk", isActive: true },
    { deviceId: "b", label: "Hand", isActive: false },
  ]);
  await microphones.choose("b");
  expect((await microphones.list()).map((device) => device.isActive)).toEqual([false, true]);
  await expect(microphones.choose("z")).rejects.toMatchObject({ code: "unknown_device" });
});

it("requests permission if the browser hides the names", async () => {
  const hidden = [device("", "")];
  const granted = createMicrophones({ media: media(hidden, TWO), storage: null });
  expect(await granted.list()).toHaveLength(2);
  const denied = createMicrophones({ media: media(hidden, TWO, false), storage: null });
  expect(await denied.list()).toEqual([]);
});

it("lists none if the page has no media devices", async () => {
  const none = createMicrophones({ media: undefined, storage: null });
  expect(await none.list()).toEqual([]);
  await expect(none.choose("a")).rejects.toMatchObject({ code: "unknown_device" });
});
