// The -VV log lines about replies, in beanstalkd's words.

import { CR } from "../../base/ascii.ts";
import { latin1 } from "../../base/bytes.ts";

/** Logs a reply that begins at `bytes[at]`, with a second line if it has a body. */
export function traceReply(
  trace: (line: string) => void,
  descriptor: number,
  bytes: Uint8Array,
  at: number,
  length: number,
): void {
  let end = at;
  while (end < at + length && bytes[end] !== CR) end++;
  const line = latin1(bytes, at, end);
  trace(`>${descriptor} reply ${line}`);
  if (line.startsWith("OK ")) trace(`>${descriptor} job 0`);
  else if (line.startsWith("FOUND ") || line.startsWith("RESERVED "))
    trace(`>${descriptor} job ${line.split(" ")[1]}`);
}
