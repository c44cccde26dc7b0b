// Limits of the wire protocol.

/** Maximum length of a command line in bytes, including CR LF. */
export const LINE_BYTES_MAX = 224;
/** The same for commands that beanstalkd lacks. */
export const EXTENSION_LINE_BYTES_MAX = 16384;
/** Maximum length of a tube name in bytes. */
export const TUBE_NAME_BYTES_MAX = 200;
/** Maximum value of pri, delay, ttr and body size. */
export const U32_MAX = 4294967295;
/** Maximum timeout of reserve-with-timeout, in seconds. */
export const TIMEOUT_SECONDS_MAX = 2147483647;
/** Jobs with a pri below this are urgent. */
export const URGENT_PRI_LIMIT = 1024;
/** A reservation enters its safety margin when its remaining time is at most this long. */
export const DEADLINE_MARGIN_MS = 1000;
/** Default and maximum of `-z`. */
export const JOB_BYTES_MAX_DEFAULT = 65535;
export const JOB_BYTES_MAX_LIMIT = 1073741824;
/** Maximum number of jobs in a reserve-batch, and of ids in a delete-batch. */
export const BATCH_JOBS_MAX = 1000;
/** Maximum bytes of all bodies in a reserve-batch, except that the first job always fits. */
export const BATCH_BYTES_MAX = 1048576;
/** Maximum weight of a group, and of a watched tube. */
export const WEIGHT_MAX = 1000;
/** Maximum of what a job takes of limits and shares. */
export const COST_MAX = 1000;

/**
 * Maximum bytes of a job's `meta` in a reply: one ` meta=` for each of at most 255 pairs, which
 * have at least two bytes and a header of two in the 1,020 bytes of a put's options.
 */
export const META_TEXT_BYTES_MAX = 2040;
