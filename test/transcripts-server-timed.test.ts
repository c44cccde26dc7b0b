// Plays every transcript in which time passes against our running server, at several numbers of shards and acceptors.
//
// Many at once, as they mostly wait; their servers are started before, so that nothing but the transcripts runs meanwhile.

import { describe, it } from "node:test";
import { canRun, NEEDS } from "./support/need.ts";
import { type Outcome, playTogether, takesTime } from "./support/play-transcript.ts";
import { TOPOLOGIES, topologyFlags, topologyName } from "./support/topologies.ts";
import { loadTranscripts, type Transcript } from "./support/transcript.ts";

const AT_ONCE = 20;

const timed = loadTranscripts().filter(
  (transcript) => transcript.only !== "beanstalkd-1.12" && takesTime(transcript),
);

for (const topology of TOPOLOGIES) {
  describe(`transcripts with time against our server, ${topologyName(topology)}`, () => {
    for (let from = 0; from < timed.length; from += AT_ONCE) {
      const group = timed.slice(from, from + AT_ONCE);
      let played: Promise<ReadonlyMap<Transcript, Outcome>> | undefined;
      for (const transcript of group) {
        it(transcript.name, async (t) => {
          if (!canRun(t, NEEDS.ours)) return;
          played ??= playTogether(group, "ours", topologyFlags(topology));
          const outcome = (await played).get(transcript);
          if (outcome?.error !== undefined) throw outcome.error;
        });
      }
    }
  });
}
