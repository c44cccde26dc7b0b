// What -VV says of replies, in beanstalkd's words.

import { CR } from "../../base/ascii.ts";
import { latin1 } from "../../base/bytes.ts";

/** A line for a reply that begins at `bytes[at]`, and one more if it gives the client a body. */
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
