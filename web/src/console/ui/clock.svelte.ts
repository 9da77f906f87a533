// One clock for all relative times of the page: they are drawn again every ten seconds.

const EVERY_MS = 10_000;
let now = $state(Date.now());
let timer: ReturnType<typeof setInterval> | null = null;
let users = 0;

export const clock = {
  get now(): number {
    return now;
  },
  /** Keeps the clock running until the returned function is called; for `$effect`. */
  run(): () => void {
    users += 1;
    now = Date.now();
    timer ??= setInterval(() => (now = Date.now()), EVERY_MS);
    return () => {
      users -= 1;
      if (users > 0 || timer === null) return;
      clearInterval(timer);
      timer = null;
    };
  },
};
