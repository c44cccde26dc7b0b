// A whole server in this process, as the flags in a transcript's header want it.

import type { ProtocolName } from "../../src/message/topology.ts";
import { InProcessServer } from "../simulation/server/in-process-server.ts";
import type { Transcript } from "../support/conversations/transcript.ts";
import { seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";

/** The smallest rings that take the transcripts' larger bodies in one message. */
export const RING_BYTES: number = 1 << 16;
/** The smallest that there are. */
export const SMALLEST_RING_BYTES = 4096;

/** Has messages that don't fit into the smallest rings; those of a server are far larger. */
const LONG_MESSAGES = ["ext-reasons-long", "ext-meta"];

/** The value of a flag in a transcript's header. */
function flagOf(transcript: Transcript, flag: string): string | undefined {
  const at = transcript.flags.indexOf(flag);
  return at < 0 ? undefined : transcript.flags[at + 1];
}

export function transcriptServer(
  transcript: Transcript,
  topology: { shards: number; acceptors: number },
  ringBytes: number,
): InProcessServer {
  const known = ["-z", "--compat", "--protocol"];
  for (let at = 0; at < transcript.flags.length; at += 2) {
    if (!known.includes(transcript.flags[at]!)) throw new Error(`no such flag here: ${transcript.flags[at]}`);
  }
  return new InProcessServer({
    ...topology,
    ringBytes: LONG_MESSAGES.includes(transcript.name) ? Math.max(ringBytes, 8192) : ringBytes,
    random: new SeededRandom(seed),
    holdUps: ringBytes === RING_BYTES ? 0 : 0.3,
    jobBytesMax: Number(flagOf(transcript, "-z") ?? 65535),
    compat: (flagOf(transcript, "--compat") ?? "default") as "default" | "1.12" | "1.13",
    protocol: (flagOf(transcript, "--protocol") ?? "extended") as ProtocolName,
  });
}
