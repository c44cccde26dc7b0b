// Tests that play every transcript against the whole server in this process, on virtual time, with
// several shards and acceptors.

import { describe, it } from "node:test";
import type { ProtocolName } from "../../src/message/topology.ts";
import { InProcessDriver } from "../simulation/server/in-process-driver.ts";
import { InProcessServer } from "../simulation/server/in-process-server.ts";
import { runTranscript } from "../support/conversations/run-transcript.ts";
import { loadTranscripts, type Transcript } from "../support/conversations/transcript.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { inWhole, outOfTurn } from "../support/whole.ts";

const TOPOLOGIES = [1, 4, 7].flatMap((shards) => [1, 3].map((acceptors) => ({ shards, acceptors })));
/**
 * The smallest rings that take the transcripts' larger bodies in one message, and the smallest that
 * there are.
 */
const RINGS = [1 << 16, 4096];

/** The value of a flag in a transcript's header. */
function flagOf(transcript: Transcript, flag: string): string | undefined {
  const at = transcript.flags.indexOf(flag);
  return at < 0 ? undefined : transcript.flags[at + 1];
}

/** Has messages that don't fit into the smallest rings; those of a server are far larger. */
const LONG_MESSAGES = ["ext-reasons-long", "ext-meta"];

function serverFor(
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
    holdUps: ringBytes === RINGS[0] ? 0 : 0.3,
    jobBytesMax: Number(flagOf(transcript, "-z") ?? 65535),
    compat: (flagOf(transcript, "--compat") ?? "default") as "default" | "1.12" | "1.13",
    protocol: (flagOf(transcript, "--protocol") ?? "extended") as ProtocolName,
  });
}

const transcripts = loadTranscripts().filter((transcript) => transcript.only !== "beanstalkd-1.12");

for (const [index, topology] of TOPOLOGIES.entries()) {
  for (const ringBytes of inWhole(RINGS, [RINGS[index % RINGS.length]!])) {
    const name = `transcripts in process, ${topology.shards} shards, ${topology.acceptors} acceptors, rings of ${ringBytes}`;
    describe(name, { skip: outOfTurn(index, 3) }, () => {
      for (const transcript of transcripts) {
        it(transcript.name, async (t) => {
          printSeed(t);
          await runTranscript(transcript, new InProcessDriver(serverFor(transcript, topology, ringBytes)));
        });
      }
    });
  }
}
