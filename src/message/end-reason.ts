// Why connections end, as acceptors count it and as it is told.

/**
 * Its client has closed it or has quit; it was idle for too long; somebody has closed it; it failed, as when a client dies; the
 * server stops; it was not let in.
 */
export const END_REASONS = ["client", "quit", "idle", "admin", "error", "stop", "auth"] as const;
export type EndReason = (typeof END_REASONS)[number];
