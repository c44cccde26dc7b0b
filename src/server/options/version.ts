// Version in the form A.B.C, which clients parse. A test keeps it equal to package.json's.

export const VERSION = "2.7.1";

/** Name of the program in messages. */
export const PROGRAM = "runnerbean";

/** Version of the log's contents: a standby with an older one can't take over. */
export { FORMAT_VERSION as LOG_VERSION } from "../../binlog/format/segment-format.ts";
