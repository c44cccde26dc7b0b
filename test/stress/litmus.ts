// Cases of one short race, repeated: every actor acts once on each slot, and the combined results
// are looked up.
//
// The slots of a stride are prepared, raced over and judged, with a barrier between. Within a
// stride, the actors meet at each slot as closely as they can.

import type { ActorRun, Experiment, Shared, StressCase } from "./case.ts";

export const SLOTS = 128;

interface Litmus<State> extends Experiment {
  readonly actors: readonly string[];
  readonly planted: readonly string[];
  create(): Shared;
  /** The actors' objects over the shared memory. */
  open(shared: Shared, planted: string | undefined): State;
  /** Makes a slot ready. */
  reset(state: State, slot: number, run: ActorRun): void;
  act(state: State, actor: number, slot: number): void;
  /** Outcome of a slot, in the words of the table or others. */
  judge(state: State, slot: number): string;
}

export function litmusCase<State>(litmus: Litmus<State>): StressCase {
  const { name, about, actors, outcomes, planted, create } = litmus;
  return {
    name,
    about,
    actors,
    outcomes,
    planted,
    create: () => ({ ...create(), goOn: new SharedArrayBuffer(4) }),
    play(actor, shared, run) {
      const state = litmus.open(shared, run.planted);
      const goOn = new Int32Array(shared["goOn"]!);
      for (let met = 0; ; met += SLOTS) {
        if (actor === 0) goOn[0] = makeReady(litmus, state, run) ? 1 : 0;
        run.barrier();
        if (goOn[0] === 0) return;
        for (let slot = 0; slot < SLOTS; slot++) {
          run.meet((met + slot) | 0);
          litmus.act(state, actor, slot);
        }
        run.barrier();
        if (actor === 0) judgeAll(litmus, state, run, met / SLOTS);
      }
    },
  };
}

/** Makes all slots ready; false if the race is over. */
function makeReady<State>(litmus: Litmus<State>, state: State, run: ActorRun): boolean {
  let goesOn = false;
  for (let slot = 0; slot < SLOTS; slot++) {
    litmus.reset(state, slot, run);
    goesOn = run.next();
  }
  return goesOn;
}

function judgeAll<State>(litmus: Litmus<State>, state: State, run: ActorRun, stride: number): void {
  for (let slot = 0; slot < SLOTS; slot++)
    run.see(litmus.judge(state, slot), `slot ${slot} of stride ${stride}`);
}
