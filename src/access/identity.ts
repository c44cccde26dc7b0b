// Who somebody is found to be, and on which tubes that counts.

import { matchesGlob } from "../base/glob.ts";

export interface Identity {
  readonly name: string;
  readonly roles: readonly string[];
  /** Bits of Permission. */
  readonly permissions: number;
  /** Globs of the tubes to which put, work, manage and view are limited; undefined for all tubes. */
  readonly tubes: readonly string[] | undefined;
  /** Unix ms from which on it counts no more; Infinity for never. */
  readonly expiresAtMs: number;
}

/** Whether somebody with these globs may touch the tube. */
export function mayTouchTube({ tubes }: Pick<Identity, "tubes">, tube: string): boolean {
  return tubes === undefined || tubes.some((pattern) => matchesGlob(pattern, tube));
}
