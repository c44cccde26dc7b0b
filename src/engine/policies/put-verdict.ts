// The verdict of policies on a put.

/** The verdict on a put. */
export const PutVerdict = {
  Welcome: 0,
  Duplicate: 1,
  TubeFull: 2,
  NoRoom: 3,
  NoBatch: 4,
  BatchCommitted: 5,
  BatchOrder: 6,
} as const;
export type PutVerdict = (typeof PutVerdict)[keyof typeof PutVerdict];
