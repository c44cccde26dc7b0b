// Tests that play every transcript against the whole server in this process, on virtual time, with
// several shards and acceptors.

import { describe, it } from "node:test";
import { InProcessDriver } from "../simulation/server/in-process-driver.ts";
import { runTranscript } from "../support/conversations/run-transcript.ts";
import { loadTranscripts } from "../support/conversations/transcript.ts";
import { printSeed } from "../support/seeded-property.ts";
import { atNight, skipVariant } from "../support/whole.ts";
import { RING_BYTES, SMALLEST_RING_BYTES, transcriptServer } from "./transcript-server.ts";

const TOPOLOGIES = [1, 4, 7].flatMap((shards) => [1, 3].map((acceptors) => ({ shards, acceptors })));
const RINGS = [RING_BYTES, SMALLEST_RING_BYTES];

const transcripts = loadTranscripts().filter((transcript) => transcript.only !== "beanstalkd-1.12");

for (const [index, topology] of TOPOLOGIES.entries()) {
  for (const ringBytes of atNight(RINGS, [RINGS[index % RINGS.length]!])) {
    const name = `transcripts in process, ${topology.shards} shards, ${topology.acceptors} acceptors, rings of ${ringBytes}`;
    describe(name, { skip: skipVariant(index, 3) }, () => {
      for (const transcript of transcripts) {
        it(transcript.name, async (t) => {
          printSeed(t);
          await runTranscript(
            transcript,
            new InProcessDriver(transcriptServer(transcript, topology, ringBytes)),
          );
        });
      }
    });
  }
}
