// Roles in the console, and who has them.

export const ROLES = [
  "viewer",
  "operator",
  "mapping-author",
  "site-administrator",
  "system-administrator",
] as const;
export type RoleName = (typeof ROLES)[number];
/** Roles that are never limited to sites. */
export const FOR_ALL_SITES: readonly string[] = ["mapping-author", "system-administrator"];

export interface Grant {
  /** Empty if the e-mail address of an old grant has no account. */
  accountId: string;
  email: string;
  role: string;
  bodies: boolean;
  /** The sites that the user is limited to; null permits all sites. */
  sites: string[] | null;
  /** The user has not enrolled yet. */
  pending: boolean;
  secondFactor: boolean;
  disabled: boolean;
}
export interface Site {
  SiteID: string;
  name: string;
  timeZone?: string;
  signDelay?: number;
}

export const keyOf = (grant: Grant): string => grant.accountId || grant.email;
