// Order of all atomics, on which doorbells and wantRoom rely: of two threads that each set a flag
// and then read the other's, at least one sees it.

import { ControlWords } from "../../../src/ring/shared-words.ts";
import { litmusCase, SLOTS } from "../litmus.ts";
import { PlainControl } from "../planted/words.ts";

const WITHOUT_ATOMICS = "plain loads and stores";
/** The two flags of a slot, each on a cache line of its own. */
const FLAG_WORDS = 16;

interface State {
  readonly words: ControlWords;
  /** For each slot and actor: whether it saw the other's flag. */
  readonly saw: Int32Array;
}

export const flagsCase = litmusCase<State>({
  name: "flags",
  about: "two threads set a flag each, then look at the other's",
  actors: ["thread 0", "thread 1"],
  outcomes: [
    {
      result: "only thread 0 saw the other",
      verdict: "ACCEPTABLE",
      why: "it was the later one",
      required: true,
    },
    {
      result: "only thread 1 saw the other",
      verdict: "ACCEPTABLE",
      why: "it was the later one",
      required: true,
    },
    {
      result: "both saw the other",
      verdict: "INTERESTING",
      why: "both had set their flags before either looked",
    },
  ],
  planted: [WITHOUT_ATOMICS],
  create: () => ({
    words: new SharedArrayBuffer(SLOTS * 2 * FLAG_WORDS * 4),
    saw: new SharedArrayBuffer(SLOTS * 2 * 4),
  }),
  open(shared, planted) {
    const Words = planted === WITHOUT_ATOMICS ? PlainControl : ControlWords;
    return { words: new Words(shared["words"]!), saw: new Int32Array(shared["saw"]!) };
  },
  reset({ words }, slot) {
    words.clear(2 * slot * FLAG_WORDS);
    words.clear((2 * slot + 1) * FLAG_WORDS);
  },
  act({ words, saw }, actor, slot) {
    words.set((2 * slot + actor) * FLAG_WORDS);
    saw[2 * slot + actor] = words.isSet((2 * slot + 1 - actor) * FLAG_WORDS) ? 1 : 0;
  },
  judge({ saw }, slot) {
    const [first, second] = [saw[2 * slot] === 1, saw[2 * slot + 1] === 1];
    if (first && second) return "both saw the other";
    if (!first && !second) return "neither saw the other";
    return first ? "only thread 0 saw the other" : "only thread 1 saw the other";
  },
});
