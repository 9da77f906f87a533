// Measures the input level of a microphone. It records nothing.

export interface Meter {
  /** 0 (silence) to 1. */
  level(): number;
  close(): void;
}

/** Returns the root of the mean square of samples around 128, spread so that speech fills the meter. */
export function loudness(samples: Uint8Array): number {
  let sum = 0;
  for (const sample of samples) sum += ((sample - 128) / 128) ** 2;
  return Math.min(1, Math.sqrt(sum / Math.max(1, samples.length)) * 3);
}

export function meterOf(stream: MediaStream): Meter {
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  analyser.fftSize = 1024;
  context.createMediaStreamSource(stream).connect(analyser);
  const samples = new Uint8Array(analyser.fftSize);
  return {
    level() {
      analyser.getByteTimeDomainData(samples);
      return loudness(samples);
    },
    close: () => void (context.state !== "closed" && context.close()),
  };
}
