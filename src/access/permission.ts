// What somebody may do, as bits, and the roles that stand for several of them.

export const Permission = {
  /** Metrics. */
  Metrics: 1,
  /** States and counts: stats, lists. */
  View: 2,
  /** Bodies of jobs without reserving them. */
  Bodies: 4,
  Put: 8,
  /** Reserve, and what is done with a reserved job. */
  Work: 16,
  /** Kick, pause, clear, move, delete what others put. */
  Manage: 32,
  /** The server itself: drain, reload, close connections. */
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

/** The names of the bits that are set, as the API and messages say them. */
export function permissionNames(permissions: number): string[] {
  return Object.entries(Permission)
    .filter(([, bit]) => (permissions & bit) !== 0)
    .map(([name]) => name.toLowerCase());
}
