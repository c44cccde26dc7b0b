// Tests that play every transcript without waits against our running server, with several numbers
// of shards and acceptors: each against one of them, and at night against all. Once more with the
// other transport, every second one is played, and net-transport plays them, too. `npm test` plays
// every third one here, and transcripts-in-process all.

import { describe, it } from "node:test";
import { playTranscript, takesTime } from "../support/conversations/play-transcript.ts";
import { loadTranscripts } from "../support/conversations/transcript.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { PLAYED_TOPOLOGIES, topologyFlags, topologyName } from "../support/topologies.ts";
import { IS_NIGHT, inWhole, skipVariant } from "../support/whole.ts";

/** Of so many transcripts one is played against each topology. */
const TURNS = IS_NIGHT ? 1 : inWhole(2, PLAYED_TOPOLOGIES.length);

for (const [turn, topology] of PLAYED_TOPOLOGIES.entries()) {
  describe(`transcripts against our server, ${topologyName(topology)}`, { concurrency: 3 }, () => {
    for (const [index, transcript] of loadTranscripts().entries()) {
      if (index % TURNS !== turn % TURNS) continue;
      if (transcript.only === "beanstalkd-1.12" || takesTime(transcript)) continue;
      const skip = skipVariant(Math.floor(index / PLAYED_TOPOLOGIES.length), 3);
      it(transcript.name, { skip }, async (t) => {
        if (!canRun(t, NEEDS.ours)) return;
        await playTranscript(transcript, "ours", topologyFlags(topology));
      });
    }
  });
}
