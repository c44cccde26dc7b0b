// Witness of reserves: single, in batches, and over several shards.

import assert from "node:assert/strict";
import { ReserveOutcome } from "../../../src/engine/engine.ts";
import { NO_SLOT } from "../../../src/engine/jobs/job-table.ts";
import { RESERVE_ORDER_WORDS } from "../../../src/protocol/request.ts";
import type { EngineCalls } from "./engine-calls.ts";

const OUTCOMES = {
  waits: ReserveOutcome.Waits,
  timedOut: ReserveOutcome.TimedOut,
  deadlineSoon: ReserveOutcome.DeadlineSoon,
} as const;

export class ReserveWitness {
  readonly #witness: EngineCalls;

  constructor(witness: EngineCalls) {
    this.#witness = witness;
  }

  watchReserves(): void {
    const model = this.#witness.model;
    const shard = this.#witness.shard;
    this.#witness.watch("reserve", ([session, timeoutMs, nowMs], result, seen) => {
      const expected = this.#witness.follow(seen, () =>
        model.reserves.reserve(this.#witness.session(session), shard, timeoutMs, nowMs, this.#idOf(result)),
      );
      if (expected === "waits") assert.equal(result, ReserveOutcome.Waits, "a reserve waits");
      else if (expected === "timedOut") assert.equal(result, ReserveOutcome.TimedOut, "a reserve times out");
      else if (expected === "deadlineSoon")
        assert.equal(result, ReserveOutcome.DeadlineSoon, "a reserve is warned");
      else
        assert.equal(
          result >= 0 ? this.#witness.idOf(result) : result,
          expected.id,
          "the job that a reserve gives",
        );
      if (expected === "timedOut") this.#witness.sink.refused(session.index, "TIMED_OUT");
      else if (expected === "deadlineSoon") this.#witness.sink.refused(session.index, "DEADLINE_SOON");
      else if (expected !== "waits") this.#witness.sink.reserved(session.index, expected.id);
    });
    this.#witness.watch("takeUpTo", ([session, pri, id, nowMs], slot, seen) => {
      const expected = this.#witness.follow(seen, () =>
        model.reserves.takeUpTo(this.#witness.session(session), shard, pri, id, nowMs),
      );
      assert.equal(
        slot === NO_SLOT ? undefined : this.#witness.idOf(slot),
        expected?.id,
        "the job that a take gives",
      );
      if (expected !== undefined) this.#witness.sink.reserved(session.index, expected.id);
    });
    this.#witness.watch("waitShared", ([session, timeoutAtMs, nowMs], _, seen) => {
      const client = this.#witness.session(session);
      const given = seen.findLast((effect) => effect.kind === "reserved" && effect.session === client.index);
      const id = given?.kind === "reserved" ? given.job : undefined;
      this.#witness.follow(seen, () => model.reserves.waitShared(client, shard, timeoutAtMs, nowMs, id));
    });
    this.#witness.watch("waitToFill", ([session, fillsAt, lingerMs, timeoutAtMs, nowMs], _, seen) => {
      const client = this.#witness.session(session);
      const fill = { fillsAt, lingerMs };
      this.#witness.follow(seen, () => model.reserves.waitToFill(client, shard, fill, timeoutAtMs, nowMs));
    });
    this.#witness.watch("stopSharedWait", ([session, nowMs], _, seen) =>
      this.#witness.follow(seen, () =>
        model.waiting.stopSharedWait(this.#witness.session(session), shard, nowMs),
      ),
    );
  }

  #idOf(slot: number): number | undefined {
    return slot >= 0 ? this.#witness.idOf(slot) : undefined;
  }

  /** Calls of sessions that pick by weight. */
  watchTurns(): void {
    const { model, shard } = this.#witness;
    // The candidate for a reserve over several shards. The look lets tubes begin at the floor.
    this.#witness.watch("bestReady", ([session, nowMs], slot, seen) => {
      const client = this.#witness.session(session);
      if (slot === NO_SLOT || session.turns?.decides !== true) return;
      const expected = this.#witness.follow(seen, () =>
        model.reserves.candidate(client, shard, nowMs, this.#idOf(slot)),
      );
      assert.equal(this.#idOf(slot), expected?.id, "the candidate of a shard");
    });
    this.#witness.watch("takeInTurn", ([session, place, pri, id, nowMs], slot, seen) => {
      const client = this.#witness.session(session);
      const given = this.#idOf(slot);
      const expected = this.#witness.follow(seen, () =>
        model.reserves.takeInTurn(client, shard, { place, pri, id }, nowMs, given),
      );
      assert.equal(given, expected?.id, "the job that a take in turn gives");
      if (expected !== undefined) this.#witness.sink.reserved(session.index, expected.id);
    });
    this.#witness.watch("weigh", ([session, tube, weight], _, seen) =>
      this.#witness.follow(seen, () =>
        model.registry.turnsOf(this.#witness.session(session)).weigh(tube, weight),
      ),
    );
    this.#witness.watch("raiseFloor", ([session, floor], _, seen) =>
      this.#witness.follow(seen, () => this.#witness.session(session).turns?.raiseFloor(shard, floor)),
    );
    this.#witness.watch("setOrder", ([session, order, nowMs], _, seen) =>
      this.#witness.follow(seen, () => {
        model.timers.runDue(shard, nowMs);
        const client = this.#witness.session(session);
        const turns = model.registry.turnsOf(client);
        turns.begin(RESERVE_ORDER_WORDS[order]!, shard, model.queues.watchedOn(client, shard));
      }),
    );
  }

  watchBatches(): void {
    const model = this.#witness.model;
    const shard = this.#witness.shard;
    this.#witness.watchPart(
      this.#witness.engine.batchReserves,
      "reserve",
      ([session, limits, timeoutMs, nowMs, slots], outcome, seen) => {
        const expected = this.#witness.follow(seen, () =>
          model.reserves.reserveBatch(
            this.#witness.session(session),
            shard,
            limits,
            timeoutMs,
            nowMs,
            slots.map((slot) => this.#witness.idOf(slot)),
          ),
        );
        if (typeof expected === "string") {
          assert.equal(outcome, OUTCOMES[expected], "a batch without jobs");
          if (expected === "timedOut") this.#witness.sink.refused(session.index, "TIMED_OUT");
          else if (expected === "deadlineSoon") this.#witness.sink.refused(session.index, "DEADLINE_SOON");
          return;
        }
        const ids = expected.map(({ id }) => id);
        assert.equal(outcome, ids.length, "how many jobs a batch gives");
        assert.deepEqual(
          slots.map((slot) => this.#witness.idOf(slot)),
          ids,
          "the jobs that a batch gives",
        );
        this.#witness.sink.reservedBatch(session.index, ids, false);
      },
    );
    this.#witness.watchPart(
      this.#witness.engine.batchReserves,
      "takeFull",
      ([session, limits, min, nowMs, slots], count, seen) => {
        const given = slots.map((slot) => this.#witness.idOf(slot));
        const client = this.#witness.session(session);
        const expected = this.#witness.follow(seen, () =>
          model.reserves.takeFull(client, shard, limits, min, nowMs, given),
        );
        const ids = expected.map(({ id }) => id);
        assert.deepEqual(given, ids, "the jobs that a full batch gives");
        assert.equal(count, ids.length, "how many jobs a full batch gives");
        if (ids.length > 0) this.#witness.sink.reservedBatch(session.index, ids, false);
      },
    );
    this.#witness.watchPart(
      this.#witness.engine.batchReserves,
      "list",
      ([session, limits, nowMs, slots, places], _, seen) => {
        const listed = slots.map((slot) => this.#witness.idOf(slot));
        const expected = this.#witness.follow(seen, () =>
          model.reserves.listBatch(this.#witness.session(session), shard, limits, nowMs, listed, places),
        );
        assert.deepEqual(
          listed,
          expected.map(({ id }) => id),
          "the jobs that a shard has for a batch",
        );
      },
    );
    this.#witness.watchPart(
      this.#witness.engine.batchReserves,
      "take",
      ([session, listed, isAlone, nowMs, slots], taken, seen) => {
        const expected = this.#witness.follow(seen, () =>
          model.reserves.takeBatch(this.#witness.session(session), shard, listed, isAlone, nowMs),
        );
        assert.deepEqual(
          slots.map((slot) => (slot === NO_SLOT ? undefined : this.#witness.idOf(slot))),
          expected.map((job) => job?.id),
          "the jobs that a shard gives for a batch",
        );
        const given = expected.filter((job) => job !== undefined).map(({ id }) => id);
        assert.equal(taken, given.length, "how many jobs a shard gives for a batch");
        if (given.length > 0) this.#witness.sink.reservedBatch(session.index, given, true);
      },
    );
    this.#witness.watchPart(
      this.#witness.engine.batchReserves,
      "takeGroup",
      ([session, listed, limits, nowMs, slots], _, seen) => {
        const expected = this.#witness.follow(seen, () =>
          model.reserves.takeGroup(this.#witness.session(session), shard, listed, limits, nowMs),
        );
        const ids = expected.map(({ id }) => id);
        assert.deepEqual(
          slots.map((slot) => this.#witness.idOf(slot)),
          ids,
          "the jobs of one group that a shard gives",
        );
        if (ids.length > 0) this.#witness.sink.reservedBatch(session.index, ids, false);
      },
    );
    this.#witness.watch("abortWait", ([session, nowMs], ended, seen) => {
      const expected = this.#witness.follow(seen, () =>
        model.reserves.abortWait(this.#witness.session(session), shard, nowMs),
      );
      assert.equal(ended, expected, "whether a wait is aborted");
      // A job that has just come is told first.
      if (ended) this.#witness.afterReport = () => this.#witness.sink.aborted(session.index);
    });
    this.#witness.watch("touchSome", ([session, begins, jobsMax, nowMs], isAll, seen) => {
      const client = this.#witness.session(session);
      const expected = this.#witness.follow(seen, () =>
        model.reserves.touchSome(client, shard, begins, jobsMax, nowMs),
      );
      assert.equal(isAll, expected, "whether all are touched");
      if (isAll)
        this.#witness.sink.touchedAll(session.index, shard, model.connections.held(client, shard).length);
    });
  }
}
