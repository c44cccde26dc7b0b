// Bugs planted in cancellation, progress and notes of jobs, which the simulation must find.

import type { Engine } from "../../../src/engine/engine.ts";
import { inEachEngine, type PlantedBug } from "./planted-bug.ts";

const CANCELS = { extensions: true, policies: true, cancels: true, jobMoves: true } as const;

const plantedInCancels = (
  name: string,
  plant: (engine: Engine) => void,
  more: Pick<PlantedBug["options"], "durable"> = {},
): PlantedBug => ({ name, options: { plant: inEachEngine(plant), ...CANCELS, ...more } });

/** Runs something while no job is seen as cancelled. */
function unmarked<Result>({ policies }: Engine, run: () => Result): Result {
  const { isCancelled } = policies;
  policies.isCancelled = () => false;
  try {
    return run();
  } finally {
    policies.isCancelled = isCancelled;
  }
}

export const PLANTED_CANCEL_BUGS: readonly PlantedBug[] = [
  plantedInCancels("a cancelled job stays where its holder buries it", (engine) => {
    const bury = engine.bury.bind(engine);
    engine.bury = (...args) => unmarked(engine, () => bury(...args));
  }),
  plantedInCancels("a cancelled job whose reservation ends has expired", (engine) => {
    const { policies } = engine;
    const ended = policies.reservationEnded.bind(policies);
    policies.reservationEnded = (...args) => unmarked(engine, () => ended(...args));
  }),
  plantedInCancels("another time to live saves a cancelled job", (engine) => {
    const update = engine.changes.update.bind(engine.changes);
    engine.changes.update = (...args) => unmarked(engine, () => update(...args));
  }),
  plantedInCancels("a second reason replaces the first", ({ policies }) => {
    const mark = policies.markCancelled.bind(policies);
    policies.markCancelled = (slot, tube, reason) => {
      mark(slot, tube, reason);
      policies.notes.setReason(slot, reason);
    };
  }),
  plantedInCancels("a job that is given again shows the progress of the last worker", (engine) => {
    const { notes } = engine.policies;
    const assign = engine.assign.bind(engine);
    engine.assign = (...args) => {
      const { forget } = notes;
      notes.forget = () => {};
      assign(...args);
      notes.forget = forget;
    };
  }),
  plantedInCancels("what is said of a job stays in the arena", ({ bodies, policies: { notes } }) => {
    const { forget } = notes;
    notes.forget = (extras, row) => {
      const { free } = bodies;
      bodies.free = () => {};
      forget.call(notes, extras, row);
      bodies.free = free;
    };
  }),
  plantedInCancels("the key of a cancelled job stays taken", (engine) => {
    const { keys } = engine.policies;
    const cancel = engine.cancel.bind(engine);
    engine.cancel = (...args) => {
      const { drop, end } = keys;
      keys.end = () => false;
      keys.drop = () => {};
      const outcome = cancel(...args);
      Object.assign(keys, { drop, end });
      return outcome;
    };
  }),
  plantedInCancels("a smaller keep-finished still shows the older ends", ({ policies: { finished } }) => {
    finished.clip = () => {};
  }),
  plantedInCancels("an end that is dropped stays in the arena", ({ bodies, policies: { finished } }) => {
    const trim = finished.trim.bind(finished);
    finished.trim = (looks) => {
      const { free } = bodies;
      bodies.free = () => {};
      const isDone = trim(looks);
      bodies.free = free;
      return isDone;
    };
  }),
  plantedInCancels("the end of a job that dies has no worker", ({ policies: { finished } }) => {
    const add = finished.add.bind(finished);
    finished.add = (slot, state, holder, ...rest) =>
      add(slot, state, state === "dead" ? -1 : holder, ...rest);
  }),
  plantedInCancels("the ends of jobs go with their tube", ({ tubes, policies: { finished } }) => {
    const remove = tubes.remove.bind(tubes);
    tubes.remove = (tube) => {
      remove(tube);
      finished.clip(tube.name, 0);
    };
  }),
  plantedInCancels(
    "a cancelled job is not logged as such",
    ({ policies: { notes } }) => {
      notes.write = () => {};
    },
    { durable: true },
  ),
  plantedInCancels(
    "the mark of a cancelled job is not logged",
    (engine) => {
      const { policies } = engine;
      const mark = policies.markCancelled.bind(policies);
      policies.markCancelled = (...args) => {
        const { records } = engine;
        Object.assign(engine, { records: undefined });
        mark(...args);
        Object.assign(engine, { records });
      };
    },
    { durable: true },
  ),
];
