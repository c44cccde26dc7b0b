// The transcripts that `npm test` plays too, with the smallest and a larger number of threads, for
// mutants that the unit tests of their room let live.

import { it } from "node:test";
import { RING_BYTES, SMALLEST_RING_BYTES, transcriptServer } from "../../oracle/transcript-server.ts";
import { InProcessDriver } from "../../simulation/server/in-process-driver.ts";
import { runTranscript } from "../../support/conversations/run-transcript.ts";
import { loadTranscripts } from "../../support/conversations/transcript.ts";

const PLAYED = [
  { topology: { shards: 1, acceptors: 1 }, ringBytes: RING_BYTES },
  { topology: { shards: 4, acceptors: 3 }, ringBytes: SMALLEST_RING_BYTES },
];

const transcripts = loadTranscripts().filter(({ only }) => only !== "beanstalkd-1.12");
for (const { topology, ringBytes } of PLAYED)
  for (const transcript of transcripts)
    it(`${transcript.name}, ${topology.shards} shards`, async () => {
      await runTranscript(transcript, new InProcessDriver(transcriptServer(transcript, topology, ringBytes)));
    });
