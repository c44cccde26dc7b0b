// An authenticated identity: its permissions, and the tubes to which they apply.

import { matchesGlob } from "../base/text.ts";
import { CommandPermission } from "../protocol/commands.ts";

// Permission bits, and the roles that combine them.

/** The permissions of commands, and those of the HTTP API alone. */
export const Permission = {
  /** Read metrics. */
  Metrics: 1,
  ...CommandPermission,
  /** Control the server itself: drain, reload, close connections. */
  Admin: 64,
} as const;

const { Metrics, View, Bodies, Put, Work, Manage, Admin } = Permission;

export const ALL_PERMISSIONS: number = Metrics | View | Bodies | Put | Work | Manage | Admin;

export const ROLES: Readonly<Record<string, number>> = {
  monitor: Metrics | View,
  viewer: Metrics | View | Bodies,
  producer: Put,
  worker: Put | Work,
  operator: Metrics | View | Bodies | Put | Work | Manage,
  admin: ALL_PERMISSIONS,
};

/** Returns the names of the bits that are set, as the API and messages write them. */
export function permissionNames(permissions: number): string[] {
  return Object.entries(Permission)
    .filter(([, bit]) => (permissions & bit) !== 0)
    .map(([name]) => name.toLowerCase());
}

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

export function mayTouchTube({ tubes }: Pick<Identity, "tubes">, tube: string): boolean {
  return tubes === undefined || tubes.some((pattern) => matchesGlob(pattern, tube));
}
