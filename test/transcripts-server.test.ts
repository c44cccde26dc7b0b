// Plays every transcript that does not wait for time to pass against our running server, at several numbers of shards and acceptors.

import { describe, it } from "node:test";
import { canRun, NEEDS } from "./support/need.ts";
import { playTranscript, takesTime } from "./support/play-transcript.ts";
import { TOPOLOGIES, topologyFlags, topologyName } from "./support/topologies.ts";
import { loadTranscripts } from "./support/transcript.ts";

for (const topology of TOPOLOGIES) {
  describe(`transcripts against our server, ${topologyName(topology)}`, { concurrency: 3 }, () => {
    for (const transcript of loadTranscripts()) {
      if (transcript.only === "beanstalkd-1.12" || takesTime(transcript)) continue;
      it(transcript.name, async (t) => {
        if (!canRun(t, NEEDS.ours)) return;
        await playTranscript(transcript, "ours", topologyFlags(topology));
      });
    }
  });
}
