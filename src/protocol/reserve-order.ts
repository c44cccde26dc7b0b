// The orders in which a connection picks its jobs: the argument of `reserve-order`.

/** In the order of RESERVE_ORDER_WORDS. */
export const ReserveOrder = {
  /** beanstalkd's: the best job of all watched tubes. */
  Strict: 0,
  /** Jobs of the watched tubes in the proportion of their weights. */
  Weighted: 1,
  /** The same for the time that the connection holds the jobs of a tube. */
  WeightedTime: 2,
} as const;
export type ReserveOrder = (typeof ReserveOrder)[keyof typeof ReserveOrder];

export const RESERVE_ORDER_WORDS = ["strict", "weighted", "weighted-time"] as const;
