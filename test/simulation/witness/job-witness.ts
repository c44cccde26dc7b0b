// Witness of commands that put, change and delete jobs.

import assert from "node:assert/strict";
import { Outcome } from "../../../src/engine/engine.ts";
import type { TubeClearing } from "../../../src/engine/job-walk.ts";
import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import type { Session } from "../../../src/engine/state/session.ts";
import type { BatchNames } from "../model/flows/model-flows.ts";
import { isWhole, type JobChoice } from "../model/job-choice.ts";
import type { DuplicateVerdict } from "../model/model-duplicates.ts";
import { ON_DUPLICATE } from "../model/model-policies.ts";
import type { ByIdResult, Effect, ModelSession } from "../model/model-types.ts";
import type { ByIdCommand } from "./command-sink.ts";
import type { EngineCalls } from "./engine-calls.ts";
import { STATE_NAMES } from "./job-states.ts";
import { policyOf } from "./noted-policies.ts";

const PUT_OUTCOMES: Readonly<Record<string, Outcome>> = {
  stored: Outcome.Done,
  duplicate: Outcome.Duplicate,
  full: Outcome.TubeFull,
  BATCH_NOT_FOUND: Outcome.NoBatch,
  BATCH_COMMITTED: Outcome.BatchCommitted,
  BATCH_ORDER: Outcome.BatchOrder,
};

/** What fits into a record of the simulated rings beside the rest of a job. */
const ONE_RECORD_BYTES_MIN = 300;

const DUPLICATE_OUTCOMES: Readonly<Record<DuplicateVerdict, Outcome>> = {
  duplicate: Outcome.Duplicate,
  kept: Outcome.Kept,
  replaced: Outcome.Replaced,
  escalated: Outcome.Escalated,
  debounced: Outcome.Debounced,
  full: Outcome.TubeFull,
  BATCH_ORDER: Outcome.BatchOrder,
};

const CANCEL_OUTCOMES = {
  done: Outcome.Done,
  marked: Outcome.Marked,
  "not found": Outcome.NotFound,
} as const;

const UPDATE_OUTCOMES = {
  done: Outcome.Done,
  full: Outcome.TubeFull,
  "not found": Outcome.NotFound,
} as const;

function namesOf(attributes: JobAttributes | undefined): BatchNames {
  const { batchName = "", afterName = "", afterAny = false } = attributes ?? {};
  return { batch: batchName, after: afterName, any: afterAny };
}

export class JobWitness {
  readonly #witness: EngineCalls;
  /** The session whose put was the last duplicate. */
  #declined = 0;

  constructor(witness: EngineCalls) {
    this.#witness = witness;
  }

  #bodyOf(body: number, bodyBytes: number): string {
    const bytes = new Uint8Array(bodyBytes);
    this.#witness.engine.bodies.read(body, 0, bytes, 0, bodyBytes);
    return Buffer.from(bytes).toString("latin1");
  }

  watchJobs(): void {
    const model = this.#witness.model;
    const shard = this.#witness.shard;
    this.#witness.watch("put", ([session, job, body, nowMs, tubeName, attributes], outcome, seen) => {
      if (outcome === Outcome.NoRoom) {
        this.#witness.follow(seen, () => {
          model.timers.runDue(shard, nowMs);
          // A put that the log has no room for may have brought the first group of its tube.
          for (const tube of model.tubes.values())
            if (this.#witness.engine.tubes.get(tube.name)?.groups !== undefined)
              model.queues.makeGroups(tube);
        });
        this.#witness.sink.putRefused(session.index);
        return;
      }
      const { id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes } = job;
      const text = this.#bodyOf(body, bodyBytes);
      const put = { id, pri, delaySeconds, ttrSeconds, body: text, policy: policyOf(attributes) };
      const client = this.#witness.session(session);
      const isNamed = tubeName !== undefined && tubeName !== "";
      const verdict = this.#witness.follow(seen, () => {
        // Before the tube is looked for: it may go with its last job, which expires.
        model.timers.runDue(shard, nowMs);
        const tube = isNamed ? model.registry.tube(tubeName) : model.registry.usedTube(client, shard);
        return model.commands.put(put, tube, nowMs, delayMillis, namesOf(attributes));
      });
      const { reply } = { reply: "", ...verdict };
      assert.equal(outcome, PUT_OUTCOMES[reply || verdict.kind], "outcome of a put");
      if (verdict.kind === "refused") this.#witness.sink.putDeclined(session.index, `${reply}\r\n`);
      else if (verdict.kind === "stored") this.#witness.sink.put(session.index, id);
      else if (verdict.kind === "duplicate") {
        assert.equal(this.#witness.engine.policies.duplicateOf, verdict.of, "whose key it is");
        this.#declined = session.index;
      } else this.#witness.sink.putDeclined(session.index, isNamed ? "TUBE_FULL\r\n" : "OUT_OF_MEMORY\r\n");
    });
    this.#witness.watchPart(
      this.#witness.engine.changes,
      "putAgain",
      ([id, job, body, attributes, nowMs], outcome, seen) => {
        if (outcome === Outcome.NoRoom) {
          this.#witness.sink.putRefused(this.#declined);
          return;
        }
        const { pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes } = job;
        if (outcome === Outcome.TooBig) {
          assert.ok(bodyBytes > ONE_RECORD_BYTES_MIN, "a small body fits into one record");
          this.#witness.sink.putDeclined(this.#declined, "JOB_TOO_BIG\r\n");
          return;
        }
        const delayMs = delaySeconds * 1000 + delayMillis;
        const { expiresAtMs, onDuplicate } = attributes;
        const put = {
          pri,
          delaySeconds,
          ttrSeconds,
          body: this.#bodyOf(body, bodyBytes),
          delayMs,
          expiresAtMs,
          policy: policyOf(attributes),
          names: namesOf(attributes),
        };
        const verdict = this.#witness.follow(seen, () =>
          model.duplicates.putAgain(shard, id, put, ON_DUPLICATE[onDuplicate]!, nowMs),
        );
        assert.equal(outcome, DUPLICATE_OUTCOMES[verdict], "what a put does to the job that has its key");
        const refusals = { full: "TUBE_FULL", BATCH_ORDER: "BATCH_ORDER" };
        const reply = { ...refusals }[verdict as string] ?? `${verdict.toUpperCase()} ${id}`;
        this.#witness.sink.putDeclined(this.#declined, `${reply}\r\n`);
      },
    );
    this.#witness.watch("beginSetting", ([pattern, values], _, seen) =>
      this.#witness.follow(seen, () => model.registry.set(shard, pattern, values)),
    );
    this.#witness.watch("applySettings", ([tube, , nowMs], _, seen) =>
      this.#witness.follow(seen, () => model.commands.applySettings(tube.name, nowMs)),
    );
    this.#witness.watch("kick", ([session, bound, nowMs], count, seen) => {
      const tube = model.registry.usedTube(this.#witness.session(session), shard);
      assert.equal(
        count,
        this.#witness.follow(seen, () => model.commands.kick(tube, bound, nowMs)),
        "count of a kick",
      );
      this.#witness.sink.kicked(session.index, tube.name, bound, count);
    });
    this.#witness.watch("clear", ([clearing, , nowMs], done, seen) => {
      const jobs = choiceOf(clearing);
      const { walk, cleared } = clearing;
      const before = this.#witness.clearings.get(clearing) ?? { cleared: 0, doneId: 0 };
      // A search of large bodies takes several steps, each of which goes on behind the last id.
      const after = { cleared, doneId: done ? walk.lastId : walk.doneId };
      this.#witness.clearings.set(clearing, after);
      // A step of a long one takes jobs from the ends of the tube's queues.
      const isLong = isWhole(jobs) && !done;
      const isTaken = (id: number): boolean =>
        isLong ? this.#witness.engine.find(id) === NO_SLOT : id > before.doneId && id <= after.doneId;
      const count = this.#witness.follow(seen, () => {
        model.timers.runDue(shard, nowMs);
        const limit = jobs.limit === undefined ? undefined : jobs.limit - before.cleared;
        return model.commands.clear({ ...jobs, limit }, nowMs, isTaken);
      });
      assert.equal(cleared - before.cleared, count, "count of a step of a clear-tube");
      if (done) this.#witness.sink.cleared(jobs, cleared);
    });
    this.#witness.watch("kickJob", ([id, nowMs], outcome, seen) => {
      this.#checkWaited("kick-job", id);
      const settled = this.#isSettled(id);
      const done = this.#agree(
        outcome,
        this.#witness.follow(seen, () => model.commands.kickJob(shard, id, nowMs)),
        "kick-job",
      );
      this.#witness.sink.kickJob(shard, id, done, settled);
    });
    this.#witness.watch("cancel", ([id, reason, nowMs], outcome, seen) => {
      this.#checkWaited("cancel-job", id);
      const settled = this.#isSettled(id);
      const text = Buffer.from(reason).toString("latin1");
      const result = this.#witness.follow(seen, () => model.commands.cancel(shard, id, text, nowMs));
      assert.equal(outcome, CANCEL_OUTCOMES[result], "outcome of cancel-job");
      this.#witness.sink.cancelJob(id, result, settled);
    });
    const { engine } = this.#witness;
    this.#witness.watchPart(engine.policies.notes, "set", ([slot, progress, note], _, seen) => {
      const job = model.jobs.get(this.#witness.idOf(slot))!;
      this.#witness.follow(seen, () => {
        if (!engine.bodies.limit.allows) return;
        job.progress = progress ?? job.progress;
        if (note !== undefined) job.note = Buffer.from(note).toString("latin1");
      });
    });
    this.#witness.watch("reserveJob", ([session, id, nowMs], outcome, seen) =>
      this.#byId("reserve-job", session, id, outcome, seen, (client) =>
        model.reserves.reserveJob(client, shard, id, nowMs),
      ),
    );
    this.#witness.watch("delete", ([session, id, nowMs], outcome, seen) =>
      this.#byId("delete", session, id, outcome, seen, (client) =>
        model.commands.delete(client, shard, id, nowMs),
      ),
    );
    this.#witness.watch("release", ([session, id, pri, delaySeconds, nowMs, reason], outcome, seen) =>
      this.#byId("release", session, id, outcome, seen, (client) =>
        model.commands.release(client, shard, id, { pri, delaySeconds, reason: reason?.text ?? "" }, nowMs),
      ),
    );
    this.#witness.watch("bury", ([session, id, pri, nowMs, reason], outcome, seen) =>
      this.#byId("bury", session, id, outcome, seen, (client) =>
        model.commands.bury(client, shard, id, pri, nowMs, reason?.text ?? ""),
      ),
    );
    this.#witness.watchPart(
      this.#witness.engine.changes,
      "update",
      ([session, id, change, nowMs], outcome, seen) => {
        this.#checkWaited("update-job", id);
        const settled = this.#isSettled(id);
        const client = this.#witness.session(session);
        const became = this.#witness.follow(seen, () =>
          model.commands.update(client, shard, id, change, nowMs),
        );
        const expected = typeof became === "string" ? UPDATE_OUTCOMES[became] : Outcome.OtherShard;
        assert.equal(outcome, expected, "outcome of update-job");
        if (typeof became === "object") {
          this.#witness.errand = became;
          this.#witness.askers.set(id, { session: session.index, shard });
        } else if (became === "full") this.#witness.sink.updateRefused(session.index, id);
        else this.#witness.sink.byId(session.index, shard, "update-job", id, became === "done", settled);
      },
    );
    this.#witness.watch("touch", ([session, id, nowMs], outcome, seen) =>
      this.#byId("touch", session, id, outcome, seen, (client) =>
        model.commands.touch(client, shard, id, nowMs),
      ),
    );
  }

  /** Returns whether the answer of this shard is the answer: the job lives here, or nowhere. */
  #isSettled(id: number): boolean {
    const job = this.#witness.model.jobs.get(id);
    return job === undefined || job.tube.shard === this.#witness.shard;
  }

  /** A command that may change an unreserved job waits for a moving one. */
  #checkWaited(name: string, id: number): void {
    if (name === "release" || name === "bury" || name === "touch") return;
    const slot = this.#witness.engine.find(id);
    if (slot === NO_SLOT) return;
    const state = this.#witness.engine.jobs.pageOf(slot).state[rowOf(slot)]!;
    assert.notEqual(STATE_NAMES[state], "moving", `job ${id} is not on its way when a ${name} looks at it`);
  }

  /**
   * Returns whether what is left here of a job says that a session does not hold it: it did not
   * when the job left, nor does it now.
   */
  #hasLeft(name: ByIdCommand, session: Session, id: number): boolean {
    if (name !== "release" && name !== "bury" && name !== "touch") return false;
    const isLeft = this.#witness.model.queues.copiesOn(this.#witness.shard).some((copy) => copy.id === id);
    return isLeft && this.#witness.model.jobs.get(id)?.holder !== this.#witness.session(session);
  }

  #byId(
    name: ByIdCommand,
    session: Session,
    id: number,
    outcome: Outcome,
    seen: readonly Effect[],
    run: (session: ModelSession) => ByIdResult,
  ): void {
    this.#checkWaited(name, id);
    const settled = this.#isSettled(id) || this.#hasLeft(name, session, id);
    const done = this.#agree(
      outcome,
      this.#witness.follow(seen, () => run(this.#witness.session(session))),
      name,
    );
    this.#witness.sink.byId(session.index, this.#witness.shard, name, id, done, settled);
  }

  #agree(outcome: Outcome, expected: ByIdResult, name: string): boolean {
    assert.equal(outcome, expected === "done" ? Outcome.Done : Outcome.NotFound, `outcome of ${name}`);
    return expected === "done";
  }
}

/** Returns the choice of jobs of a clearing that has ended. */
function choiceOf({ tube, walk: { filter }, jobsLeft, cleared }: TubeClearing): JobChoice {
  const states = Object.entries(STATE_NAMES).filter(
    ([state]) => (filter.states & (1 << Number(state))) !== 0,
  );
  return {
    tube,
    states: states.map(([, name]) => name),
    contains: filter.contains === undefined ? undefined : Buffer.from(filter.contains).toString("latin1"),
    group: filter.group,
    limit: jobsLeft === Number.POSITIVE_INFINITY ? undefined : jobsLeft + cleared,
  };
}
