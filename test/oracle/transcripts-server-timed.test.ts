// Tests that play every transcript in which time passes against our running server, with several
// numbers of shards and acceptors.
//
// Many run at once, because they mostly wait; their servers are started before, so that nothing but
// the transcripts runs in the meantime.

import { describe, it } from "node:test";
import {
  type Outcome,
  type Play,
  playTogether,
  takesTime,
  waitMs,
} from "../support/conversations/play-transcript.ts";
import { loadTranscripts } from "../support/conversations/transcript.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { PLAYED_TOPOLOGIES, topologyFlags, topologyName } from "../support/topologies.ts";
import { skipVariant } from "../support/whole.ts";

/** Servers at once: they take some 4 GB together. */
const AT_ONCE = 27;

// Transcripts with similar waits run together. In `npm test` each has one topology in turn.
const timed = loadTranscripts()
  .filter((transcript) => transcript.only !== "beanstalkd-1.12" && takesTime(transcript))
  .sort((a, b) => waitMs(b) - waitMs(a));
const plays = timed.flatMap((transcript, index) =>
  PLAYED_TOPOLOGIES.map((topology, turn) => ({
    ...{ transcript, topology, flags: topologyFlags(topology) },
    skip: skipVariant(index + turn, PLAYED_TOPOLOGIES.length),
  })),
);
const taken = plays.filter(({ skip }) => skip === false);
const groups = Array.from({ length: Math.ceil(taken.length / AT_ONCE) }, (_, index) =>
  taken.slice(index * AT_ONCE, (index + 1) * AT_ONCE),
);
const played = new Map<(typeof groups)[number], Promise<ReadonlyMap<Play, Outcome>>>();

for (const topology of PLAYED_TOPOLOGIES) {
  describe(`transcripts with time against our server, ${topologyName(topology)}`, () => {
    for (const play of plays.filter((each) => each.topology === topology)) {
      it(play.transcript.name, { skip: play.skip }, async (t) => {
        if (!canRun(t, NEEDS.ours)) return;
        const group = groups.find((each) => each.includes(play))!;
        let outcomes = played.get(group);
        if (outcomes === undefined) played.set(group, (outcomes = playTogether(group, "ours")));
        const outcome = (await outcomes).get(play);
        if (outcome?.error !== undefined) throw outcome.error;
      });
    }
  });
}
