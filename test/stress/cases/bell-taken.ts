// Several ringers and an owner who has announced sleep: exactly one of them takes the ring and
// would notify.

import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { litmusCase, SLOTS } from "../litmus.ts";
import { SharedBell } from "../planted/doorbells.ts";

const ACTORS = ["ringer 0", "ringer 1", "ringer 2"] as const;
const BY_LOAD_AND_STORE = "takes the ring by a load and a store";

interface State {
  readonly owners: readonly DoorbellOwner[];
  readonly bells: readonly Doorbell[];
  /** For each slot and actor: whether it took the ring. */
  readonly took: Int32Array;
}

export const bellTakenCase = litmusCase<State>({
  name: "bell-taken",
  about: "three threads ring an owner who has announced sleep",
  actors: ACTORS,
  outcomes: ACTORS.map((actor) => ({
    result: `rung by ${actor}`,
    verdict: "ACCEPTABLE",
    why: "one takes the ring; the others find the owner awake",
    required: true,
  })),
  planted: [BY_LOAD_AND_STORE],
  create: () => ({
    doorbells: new SharedArrayBuffer(SLOTS * DOORBELL_WORDS * 4),
    took: new SharedArrayBuffer(SLOTS * ACTORS.length * 4),
  }),
  open(shared, planted) {
    const words = new Int32Array(shared["doorbells"]!);
    const Bell = planted === BY_LOAD_AND_STORE ? SharedBell : Doorbell;
    const slots = Array.from({ length: SLOTS }, (_, slot) => slot);
    return {
      owners: slots.map((slot) => new DoorbellOwner(words, slot)),
      bells: slots.map((slot) => new Bell(words, slot)),
      took: new Int32Array(shared["took"]!),
    };
  },
  reset: ({ owners }, slot) => owners[slot]!.prepare(),
  act({ bells, took }, actor, slot) {
    took[slot * ACTORS.length + actor] = bells[slot]!.ring() ? 1 : 0;
  },
  judge({ took }, slot) {
    const ringers = ACTORS.filter((_, actor) => took[slot * ACTORS.length + actor] === 1);
    return ringers.length === 1 ? `rung by ${ringers[0]}` : `rung by ${ringers.length}`;
  },
});
