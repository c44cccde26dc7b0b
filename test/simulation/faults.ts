// Faults that a person may ask for at a step of a run, in place of what its seed draws there.

/**
 * kill: the process dies. power: the power fails. torn: the power fails in the middle of a write.
 * slow: each sync takes long. full: the disk has no room, or has room again. cut: the network drops
 * the connections of one acceptor.
 */
export const FAULTS = ["kill", "power", "torn", "slow", "full", "cut"] as const;
export type Fault = (typeof FAULTS)[number];

/** What can only happen to a server with a log. */
export const needsLog = (fault: Fault): boolean => fault !== "cut";
