// The fixed replies, as bytes.

import { DELETE, PERCENT, SPACE } from "../base/ascii.ts";
import { asciiBytes } from "../base/bytes.ts";

const line = (text: string): Uint8Array => asciiBytes(`${text}\r\n`);

export const Reply = {
  aborted: line("ABORTED"),
  authenticated: line("AUTHENTICATED"),
  badFormat: line("BAD_FORMAT"),
  buried: line("BURIED"),
  deadlineSoon: line("DEADLINE_SOON"),
  deleted: line("DELETED"),
  draining: line("DRAINING"),
  expectedCrlf: line("EXPECTED_CRLF"),
  jobTooBig: line("JOB_TOO_BIG"),
  kicked: line("KICKED"),
  notFound: line("NOT_FOUND"),
  notIgnored: line("NOT_IGNORED"),
  outOfMemory: line("OUT_OF_MEMORY"),
  paused: line("PAUSED"),
  released: line("RELEASED"),
  resumed: line("RESUMED"),
  set: line("SET"),
  timedOut: line("TIMED_OUT"),
  touched: line("TOUCHED"),
  named: line("NAMED"),
  tubeFull: line("TUBE_FULL"),
  unauthorized: line("UNAUTHORIZED"),
  unknownCommand: line("UNKNOWN_COMMAND"),
  updated: line("UPDATED"),
  opened: line("OPENED"),
  committed: line("COMMITTED"),
  cancelled: line("CANCELLED"),
  cancelling: line("CANCELLING"),
  batchExists: line("BATCH_EXISTS"),
  batchCancelled: line("BATCH_CANCELLED"),
  batchComplete: line("BATCH_COMPLETE"),
  batchNotFound: line("BATCH_NOT_FOUND"),
  batchCommitted: line("BATCH_COMMITTED"),
  batchOrder: line("BATCH_ORDER"),
} as const;

/** `USING <tube>`. */
export function usingReply(tube: string): Uint8Array {
  return line(`USING ${tube}`);
}

/** `WATCHING <count>`. */
export function watchingReply(count: number): Uint8Array {
  return line(`WATCHING ${count}`);
}

/** The words that begin replies with arguments, each with its trailing space. */
export const ReplyWord = {
  cleared: asciiBytes("CLEARED "),
  debounced: asciiBytes("DEBOUNCED "),
  duplicate: asciiBytes("DUPLICATE "),
  escalated: asciiBytes("ESCALATED "),
  found: asciiBytes("FOUND "),
  inserted: asciiBytes("INSERTED "),
  kept: asciiBytes("KEPT "),
  kicked: asciiBytes("KICKED "),
  moved: asciiBytes("MOVED "),
  replaced: asciiBytes("REPLACED "),
  reserved: asciiBytes("RESERVED "),
  reservedBatch: asciiBytes("RESERVED_BATCH "),
  touchedAll: asciiBytes("TOUCHED_ALL "),
  watching: asciiBytes("WATCHING "),
} as const;

/** `UNKNOWN_OPTION <name>`. */
export function unknownOptionReply(name: string): Uint8Array {
  return line(`UNKNOWN_OPTION ${name}`);
}

/** `BAD_SCHEDULE <what is wrong>`. */
export function badScheduleReply(problem: string): Uint8Array {
  return line(`BAD_SCHEDULE ${problem}`);
}

/** `TOUCHED cancelled=<reason>`, with `%XX` for blanks and all else that is not printable ASCII. */
export function touchedCancelledReply(reason: Uint8Array): Uint8Array {
  const text = Array.from(reason, (byte) =>
    byte > SPACE && byte < DELETE && byte !== PERCENT
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).padStart(2, "0")}`,
  );
  return line(`TOUCHED cancelled=${text.join("")}`);
}

/** `TOUCHED_ALL <count>`. */
export function touchedAllReply(count: number): Uint8Array {
  return line(`TOUCHED_ALL ${count}`);
}

/**
 * `DELETED_BATCH <deleted> <missing>[ <id> …]`, where `ids` are the missing ids as the client wrote
 * them.
 */
export function deletedBatchReply(deleted: number, ids: readonly string[]): Uint8Array {
  return line(["DELETED_BATCH", deleted, ids.length, ...ids].join(" "));
}

/** Returns a reply with a text, such as a dictionary. */
export function textReply(text: string): Uint8Array {
  return asciiBytes(`OK ${text.length}\r\n${text}\r\n`);
}
