// Reads the shared log for a leader in doubt: everything from its last acknowledged message on,
// unless another lead shows up early. A node that was stopped for hours would otherwise read
// gigabytes only to step down.

import { assert } from "../base/assert.ts";
import type { PrimaryCore } from "./primary-core.ts";
import type { LogMessage, SharedLog } from "./shared-log.ts";

/**
 * First interval between checks for another lead, more than a primary has in flight; it doubles
 * after each check.
 */
const ENOUGH_BYTES = 4 * 1024 * 1024;

/** Returns the messages `from` to `to`, or the first of them. */
export async function readInDoubt(
  log: Pick<SharedLog, "read">,
  primary: Pick<PrimaryCore, "seesOtherLead">,
  from: number,
  to: number,
): Promise<LogMessage[]> {
  assert(from > 0, "a primary in doubt starts at a known message");
  const messages: LogMessage[] = [];
  let enoughBytes = ENOUGH_BYTES;
  let readBytes = 0;
  for await (const message of log.read(from, to)) {
    messages.push(message);
    readBytes += message.bytes.length;
    if (readBytes < enoughBytes) continue;
    if (primary.seesOtherLead(messages)) break;
    enoughBytes *= 2;
  }
  return messages;
}
