// What a node that has the lead, and is in doubt, reads of the shared log: all from its last acknowledged message on, unless it sees
// early that another node leads. One that was stopped for hours would read gigabytes otherwise, only to end.

import type { PrimaryCore } from "./primary-core.ts";
import type { LogMessage, SharedLog } from "./shared-log.ts";

/** More than a primary has under way; after so much it is asked, and again after twice as much. */
const ENOUGH_BYTES = 4 * 1024 * 1024;

/** Messages `from` to `to`, or the first of them. */
export async function readInDoubt(
  log: Pick<SharedLog, "read">,
  primary: Pick<PrimaryCore, "seesOtherLead">,
  from: number,
  to: number,
): Promise<LogMessage[]> {
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
