// Planted bugs of a group, which the simulation must find.

export const BUGS = [
  "no chain",
  "the tail is kept at rejoin",
  "the ack of a LEAD is believed",
  "ids are not lent",
  "an id is seen before its lending is acknowledged",
  "any sequence is taken for an ack",
  "a reply leaves before the ack",
  "a segment goes before the ack",
  "the log is purged before the ack",
  "the place of a purge is computed",
  "holes are skipped",
  "a tail is cut although nobody has led since",
  "an overtaken answer is taken for stale",
  "a segment is taken to begin where reading began",
] as const;
export type Bug = (typeof BUGS)[number];
