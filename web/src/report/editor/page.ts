// The state of the report's page as the session endpoints answer with it.

export interface Person {
  name: string;
}

export interface Addendum {
  state: "draft" | "signed";
  version: number;
  content: string;
  signedAt: number | null;
  signedBy: Person | null;
}

export interface Page {
  status: string;
  version: number;
  content: string;
  can: string[];
  orders: Readonly<Record<string, string>>[];
  addenda: Addendum[];
  signedAt: number | null;
  signedBy: Person | null;
  unsignUntil: number | null;
  addendumUnsignUntil: number | null;
}
