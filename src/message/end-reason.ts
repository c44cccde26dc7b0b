// The reasons why connections end, as acceptors count and report them.

/**
 * The client closed the connection; it quit; it was idle for too long; an operator closed it; it
 * failed, for example because the client died; the server stopped; authentication failed.
 */
export const END_REASONS = ["client", "quit", "idle", "admin", "error", "stop", "auth"] as const;
export type EndReason = (typeof END_REASONS)[number];
