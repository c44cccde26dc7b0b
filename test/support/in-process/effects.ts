// What an engine tells its surroundings, where a test has none, or is interested in a part of it only.

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
