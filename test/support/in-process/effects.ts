// Engine surroundings for tests that have none, or need only a part of them.

import type { ClientEffects } from "../../../src/engine/waiting/effects.ts";

/** Everything may be claimed, and nothing that is told matters but what `heard` says. */
export function unheardEffects(heard: Partial<ClientEffects> = {}): ClientEffects {
  let sequence = 0;
  return {
    reserved() {},
    timedOut() {},
    deadlineSoon() {},
    waitDue() {},
    claim: () => true,
    stillWaiting: () => true,
    nextTubeSequence: () => ++sequence,
    ...heard,
  };
}
