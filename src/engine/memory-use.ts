// The memory that clients make a shard keep, as --max-memory counts it. src/memory-bounds.md lists
// everything that clients can make grow.
//
// The figure falls whenever something is removed, unlike the memory taken from the system. Each put
// computes it (`Engine.memoryBytes`), at the cost of a few reads.

/** Measured sizes in bytes, rounded up, with names of tubes and groups of about 30 bytes. */
export const BYTES_OF = {
  /** The job's row, index entry and heap position. Body and attributes are in the arena. */
  job: 112,
  /** The job's row in a page where some jobs have attributes. */
  extras: 36,
  /** A page's columns for failures, if a job on it has failed. The failures are in the arena. */
  failurePage: 65536,
  tube: 512,
  watch: 256,
  /** A watched tube's share, besides its watch, if the session has weights. */
  share: 256,
  group: 320,
  /** The key's row and entry. The key itself is in the arena. */
  key: 64,
  retiredLimiter: 200,
  setting: 256,
  /** Without its texts, which are counted separately, and its body, which is in the arena. */
  schedule: 1024,
  /** A page's columns of batches, if a job on it belongs to one or waits for one. */
  flowPage: 139264,
  /** A batch, on each shard, with a name of up to 200 bytes. */
  batch: 768,
} as const;

/** Maximum bytes that one more put may add, besides its body. */
export const PUT_BYTES: number =
  BYTES_OF.job + BYTES_OF.extras + BYTES_OF.tube + BYTES_OF.group + BYTES_OF.key;
