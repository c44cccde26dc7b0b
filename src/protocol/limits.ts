// The numbers of the wire protocol.

/** Longest command line in bytes, with its CR LF. */
export const LINE_BYTES_MAX = 224;
/** The same for a command that beanstalkd does not have. */
export const EXTENSION_LINE_BYTES_MAX = 16384;
/** Longest tube name in bytes. */
export const TUBE_NAME_BYTES_MAX = 200;
/** Largest value of pri, delay, ttr and body size. */
export const U32_MAX = 4294967295;
/** Largest timeout of reserve-with-timeout, in seconds. */
export const TIMEOUT_SECONDS_MAX = 2147483647;
/** Jobs with a smaller pri than this are urgent. */
export const URGENT_PRI_LIMIT = 1024;
/** A reservation is in its margin when it has at most this long to live. */
export const DEADLINE_MARGIN_MS = 1000;
/** Default and largest `-z`. */
export const JOB_BYTES_MAX_DEFAULT = 65535;
export const JOB_BYTES_MAX_LIMIT = 1073741824;
/** Most jobs of a reserve-batch, and ids of a delete-batch. */
export const BATCH_JOBS_MAX = 1000;
/** Most bytes of bodies in a reserve-batch, but for its first job. */
export const BATCH_BYTES_MAX = 1048576;
/** Largest weight of a group. */
export const WEIGHT_MAX = 1000;
