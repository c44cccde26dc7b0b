// Tests that play every transcript without waits against our running server, with several numbers
// of shards and acceptors.

import { describe, it } from "node:test";
import { playTranscript, takesTime } from "../support/conversations/play-transcript.ts";
import { loadTranscripts } from "../support/conversations/transcript.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { PLAYED_TOPOLOGIES, topologyFlags, topologyName } from "../support/topologies.ts";

for (const topology of PLAYED_TOPOLOGIES) {
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
