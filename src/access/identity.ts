// An authenticated identity: its permissions, and the tubes to which they apply.

import { matchesGlob } from "../base/glob.ts";

export interface Identity {
  readonly name: string;
  readonly roles: readonly string[];
  /** Permission bits. */
  readonly permissions: number;
  /**
   * Globs of the tubes to which put, work, manage and view are limited; undefined for all tubes.
   */
  readonly tubes: readonly string[] | undefined;
  /** Expiry in Unix ms; Infinity for never. */
  readonly expiresAtMs: number;
}

/** Returns whether the identity's globs cover the tube. */
export function mayTouchTube({ tubes }: Pick<Identity, "tubes">, tube: string): boolean {
  return tubes === undefined || tubes.some((pattern) => matchesGlob(pattern, tube));
}
