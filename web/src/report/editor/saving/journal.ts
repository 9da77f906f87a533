// What is typed and not saved yet, kept on this computer: encrypted under a key that the engine
// gives to this user for this report, so that nobody else reads it here (decision 0045).

export interface Entry<Content> {
  content: Content;
  /** The version of the report that it was typed on. */
  version: number;
  at: number;
}

export interface Journal {
  keep<Content>(part: string, entry: Entry<Content>): Promise<void>;
  read<Content>(part: string): Promise<Entry<Content> | null>;
  clear(part: string): Promise<void>;
}

interface Row {
  id: string;
  at: number;
  iv: Uint8Array<ArrayBuffer>;
  data: ArrayBuffer;
}

const NAME = "report-journal";
const STORE = "parts";
/** What nobody came back for is forgotten after a week. */
const FORGOTTEN_AFTER = 7 * 24 * 3600 * 1000;

/** Opens the journal of a report; null where this browser can keep nothing safely. */
export async function openJournal(
  reportId: string,
  key: string,
  scope: { indexedDB?: IDBFactory; crypto: Crypto } = globalThis,
): Promise<Journal | null> {
  try {
    const { subtle } = scope.crypto;
    if (!subtle || !scope.indexedDB) return null;
    const database = await openDatabase(scope.indexedDB);
    const bytes = Uint8Array.from(atob(key), (each) => each.charCodeAt(0));
    const secret = await subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]);
    await forgetOld(database, Date.now() - FORGOTTEN_AFTER);
    return new SealedJournal(database, reportId, secret, scope.crypto);
  } catch {
    return null; // storage is denied here (a frame, a private window)
  }
}

class SealedJournal implements Journal {
  readonly #database: IDBDatabase;
  readonly #report: string;
  readonly #secret: CryptoKey;
  readonly #crypto: Crypto;

  constructor(database: IDBDatabase, report: string, secret: CryptoKey, crypto: Crypto) {
    this.#database = database;
    this.#report = report;
    this.#secret = secret;
    this.#crypto = crypto;
  }

  async keep<Content>(part: string, entry: Entry<Content>): Promise<void> {
    const id = this.#id(part);
    const iv = this.#crypto.getRandomValues(new Uint8Array(12));
    const plain = new TextEncoder().encode(JSON.stringify(entry));
    const data = await this.#crypto.subtle.encrypt(this.#sealing(id, iv), this.#secret, plain);
    const row: Row = { id, at: entry.at, iv, data };
    await finished(this.#store("readwrite").put(row));
  }

  async read<Content>(part: string): Promise<Entry<Content> | null> {
    const id = this.#id(part);
    const row = await finished<Row | undefined>(this.#store("readonly").get(id));
    if (!row) return null;
    try {
      const sealing = this.#sealing(id, row.iv);
      const plain = await this.#crypto.subtle.decrypt(sealing, this.#secret, row.data);
      return JSON.parse(new TextDecoder().decode(plain)) as Entry<Content>;
    } catch {
      return null; // another user's: theirs to read, not ours to remove
    }
  }

  async clear(part: string): Promise<void> {
    await finished(this.#store("readwrite").delete(this.#id(part)));
  }

  #id(part: string): string {
    return `${this.#report}/${part}`;
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
