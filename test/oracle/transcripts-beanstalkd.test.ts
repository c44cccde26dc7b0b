// Tests of the transcripts themselves: every one is played against Debian's beanstalkd 1.12.

import { describe, it } from "node:test";
import { playTogether } from "../support/conversations/play-transcript.ts";
import { loadTranscripts } from "../support/conversations/transcript.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";

const plays = loadTranscripts()
  .filter((transcript) => transcript.only !== "ours")
  .map((transcript) => ({ transcript, flags: [] }));

describe("transcripts against beanstalkd 1.12", () => {
  let played: ReturnType<typeof playTogether> | undefined;
  for (const play of plays) {
    it(play.transcript.name, async (t) => {
      if (!canRun(t, NEEDS.beanstalkd)) return;
      played ??= playTogether(plays, "beanstalkd-1.12");
      const outcome = (await played).get(play);
      if (outcome?.error !== undefined) throw outcome.error;
    });
  }
});
