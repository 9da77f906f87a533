// Unsaved text, kept in the browser. It is encrypted with a key that the service gives to this
// user for this report, so that no other user of the computer can read it.

export interface Entry<Content> {
  content: Content;
  /** The version of the report on which the text was typed. */
  version: number;
  at: number;
  /** The id of a stored entry. */
  id?: string;
}

export interface Journal {
  keep<Content>(part: string, entry: Entry<Content>): Promise<void>;
  /** Returns the newest text of another window; text of open windows only if asked for. */
  read<Content>(part: string, options?: { openWindows?: boolean }): Promise<Entry<Content> | null>;
  /** Removes the entries of this window. */
  clear(part: string): Promise<void>;
  /** Removes an entry. */
  forget(entry: Entry<unknown>): Promise<void>;
}

interface Row {
  id: string;
  at: number;
  iv: Uint8Array<ArrayBuffer>;
  data: ArrayBuffer;
}

interface Scope {
  indexedDB?: IDBFactory;
  crypto: Crypto;
  navigator?: { locks?: LockManager };
}

const NAME = "report-journal";
const STORE = "parts";
/** Unclaimed entries are deleted after a week. */
const FORGOTTEN_AFTER = 7 * 24 * 3600 * 1000;
/** Separates the name of the part from the window id. */
const WINDOW = "#";

/** Opens the journal of a report; null if this browser cannot store text safely. */
export async function openJournal(
  reportId: string,
  key: string,
  scope: Scope = globalThis,
): Promise<Journal | null> {
  try {
    const { subtle } = scope.crypto;
    if (!subtle || !scope.indexedDB) return null;
    const database = await openDatabase(scope.indexedDB);
    const bytes = Uint8Array.from(atob(key), (character) => character.charCodeAt(0));
    const secret = await subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]);
    await forgetOld(database, Date.now() - FORGOTTEN_AFTER);
    const windows = openWindows(scope.navigator?.locks, scope.crypto);
    return new SealedJournal(database, reportId, secret, scope.crypto, windows);
  } catch {
    return null; // storage is denied here (a frame, a private window)
  }
}

/** The open windows of this browser: each holds a lock with its own name. */
interface Windows {
  readonly own: string;
  areOpen(): Promise<ReadonlySet<string>>;
}

let present: Windows | null = null;

function openWindows(locks: LockManager | undefined, crypto: Crypto): Windows {
  if (present) return present;
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  const own = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const nameOf = (window: string) => `${NAME}${WINDOW}${window}`;
  // The lock is held until the window closes, even if it crashes.
  void locks?.request(nameOf(own), () => new Promise(() => undefined)).catch(() => undefined);
  return (present = {
    own,
    async areOpen() {
      const held = (await locks?.query())?.held ?? [];
      return new Set(held.map((one) => (one.name ?? "").slice(nameOf("").length)));
    },
  });
}

class SealedJournal implements Journal {
  readonly #database: IDBDatabase;
  readonly #report: string;
  readonly #secret: CryptoKey;
  readonly #crypto: Crypto;
  readonly #windows: Windows;

  constructor(
    database: IDBDatabase,
    report: string,
    secret: CryptoKey,
    crypto: Crypto,
    windows: Windows,
  ) {
    this.#database = database;
    this.#report = report;
    this.#secret = secret;
    this.#crypto = crypto;
    this.#windows = windows;
  }

  async keep<Content>(part: string, entry: Entry<Content>): Promise<void> {
    const id = this.#id(part);
    const iv = this.#crypto.getRandomValues(new Uint8Array(12));
    const plain = new TextEncoder().encode(JSON.stringify(entry));
    const data = await this.#crypto.subtle.encrypt(this.#sealing(id, iv), this.#secret, plain);
    const row: Row = { id, at: entry.at, iv, data };
    await finished(this.#store("readwrite").put(row));
  }

  async read<Content>(part: string, { openWindows = false } = {}): Promise<Entry<Content> | null> {
    const name = `${this.#report}/${part}`;
    const range = IDBKeyRange.bound(name, `${name}${WINDOW}\uffff`);
    const rows = await finished<Row[]>(this.#store("readonly").getAll(range));
    const open = openWindows ? new Set([this.#windows.own]) : await this.#windows.areOpen();
    const left = rows.filter((row) => !open.has(row.id.slice(name.length + WINDOW.length)));
    for (const row of left.sort((one, other) => other.at - one.at)) {
      const entry = await this.#unseal<Content>(row);
      if (entry) return { ...entry, id: row.id };
    }
    return null;
  }

  async clear(part: string): Promise<void> {
    await finished(this.#store("readwrite").delete(this.#id(part)));
  }

  async forget({ id }: Entry<unknown>): Promise<void> {
    if (id !== undefined) await finished(this.#store("readwrite").delete(id));
  }

  async #unseal<Content>(row: Row): Promise<Entry<Content> | null> {
    try {
      const sealing = this.#sealing(row.id, row.iv);
      const plain = await this.#crypto.subtle.decrypt(sealing, this.#secret, row.data);
      return JSON.parse(new TextDecoder().decode(plain)) as Entry<Content>;
    } catch {
      return null; // another user's: theirs to read, not ours to remove
    }
  }

  #id(part: string): string {
    return `${this.#report}/${part}${WINDOW}${this.#windows.own}`;
  }

  #sealing(id: string, iv: Uint8Array<ArrayBuffer>): AesGcmParams {
    return { name: "AES-GCM", iv, additionalData: new TextEncoder().encode(id) };
  }

  #store(mode: IDBTransactionMode): IDBObjectStore {
    return this.#database.transaction(STORE, mode).objectStore(STORE);
  }
}

function openDatabase(factory: IDBFactory): Promise<IDBDatabase> {
  const request = factory.open(NAME, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(STORE, { keyPath: "id" }).createIndex("at", "at");
  };
  return finished(request);
}

async function forgetOld(database: IDBDatabase, before: number): Promise<void> {
  const store = database.transaction(STORE, "readwrite").objectStore(STORE);
  const keys = await finished(store.index("at").getAllKeys(IDBKeyRange.upperBound(before)));
  for (const key of keys) store.delete(key);
}

function finished<Result>(request: IDBRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error as DOMException);
  });
}
