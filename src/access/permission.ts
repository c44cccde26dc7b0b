// Permission bits, and the roles that combine them.

import { CommandPermission } from "../protocol/commands.ts";

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
