// Data of a panel: loading, loaded, or unavailable.

export class Loading<Value> {
  value = $state.raw<Value | null>(null);
  failed = $state(false);
  readonly #fetch: () => Promise<Value>;

  constructor(fetch: () => Promise<Value>) {
    this.#fetch = fetch;
    void this.again();
  }

  async again(): Promise<void> {
    this.failed = false;
    try {
      this.value = await this.#fetch();
    } catch {
      this.failed = true;
    }
  }
}
