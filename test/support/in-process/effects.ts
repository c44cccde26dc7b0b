// Engine surroundings for tests that have none, or need only a part of them.

import type { ClientEffects, RecordSink } from "../../../src/engine/state/effects.ts";

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

/** A log with room for everything, where only what `heard` says matters. */
export function unheardRecords(heard: Partial<RecordSink>): RecordSink {
  return {
    roomForPut: () => true,
    put: () => true,
    fitsOneRecord: () => true,
    replaced() {},
    updated() {},
    deleted() {},
    ended() {},
    remembered() {},
    left: () => 0,
    ...heard,
  };
}
