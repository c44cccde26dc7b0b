// Witness of every engine call and every claim of a wait, which the model must follow and confirm.
//
// Commands take effect at these calls, so the order of concurrent commands need not be guessed: the
// model follows the actual order, and must reach the same outcome, effect by effect.

import assert from "node:assert/strict";
import { type Engine, Outcome, ReserveOutcome } from "../../src/engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../src/engine/jobs/job-table.ts";
import type { Tube } from "../../src/engine/tubes/tube.ts";
import { type Session, Waiting } from "../../src/engine/waiting/session.ts";
import type { TubeClearing } from "../../src/engine/walks/tube-clearing.ts";
import { MoveOutcome } from "../../src/engine/walks/tube-moving.ts";
import { checkInvariants } from "../support/in-process/engine-invariants.ts";
import type { JobChoice } from "./model/job-choice.ts";
import type {
  ByIdResult,
  Effect,
  Errand,
  Model,
  ModelJob,
  ModelSession,
  PutVerdict,
  State,
} from "./model/model.ts";
import { compared, policyAt, policyOf, settingsAt, settingsOf } from "./model/noted-policies.ts";

/** What the witness tells of commands that took effect. */
export interface CommandSink {
  put(session: number, job: number): void;
  /** A put was refused because the log has no room. */
  putRefused(session: number): void;
  /** A put's job was not stored: its key is taken, or its tube is full. */
  putDeclined(session: number, reply: string): void;
  reserved(session: number, job: number): void;
  /** The jobs of a batch, or one shard's part of them. */
  reservedBatch(session: number, jobs: readonly number[], isPart: boolean): void;
  /** The last of a client's jobs on a shard was touched; it holds this many there. */
  touchedAll(session: number, shard: number, held: number): void;
  /** The client ended its wait. */
  aborted(session: number): void;
  /** A wait or a reserve ended on its shard without a job. */
  refused(session: number, reply: "TIMED_OUT" | "DEADLINE_SOON"): void;
  /**
   * `settled` is false for "not found" on a shard where the job can't be although it is elsewhere.
   */
  byId(session: number, shard: number, name: ByIdCommand, id: number, done: boolean, settled: boolean): void;
  kicked(session: number, tube: string, bound: number, count: number): void;
  kickJob(shard: number, id: number, done: boolean, settled: boolean): void;
  paused(name: string, seconds: number, found: boolean): void;
  /** An update-job has found the tube full to which its job was to go. */
  updateRefused(session: number, shard: number, id: number): void;
  /** A move-jobs has moved a job from one tube to another, or begun to. */
  moved(from: string, to: string, isDone: boolean): void;
  /** A clear-tube has done all that it should. */
  cleared(jobs: JobChoice, count: number): void;
  /** The model has followed a call on a shard; what became of commands is told after this. */
  followed(shard: number): void;
  /** Anything may have changed. */
  changed(): void;
}

/** For engines whose commands have no client. */
export const NOBODY: CommandSink = {
  put() {},
  putRefused() {},
  putDeclined() {},
  reserved() {},
  reservedBatch() {},
  touchedAll() {},
  aborted() {},
  refused() {},
  byId() {},
  kicked() {},
  kickJob() {},
  paused() {},
  updateRefused() {},
  moved() {},
  cleared() {},
  followed() {},
  changed() {},
};

export type ByIdCommand = "reserve-job" | "delete" | "release" | "bury" | "touch" | "update-job";

/** The part of an engine's host that it calls back. */
export interface EffectsHost {
  reserved(session: Session, slot: number): void;
  timedOut(session: Session): void;
  deadlineSoon(session: Session): void;
  waitDue(session: Session): void;
  claim(session: Session): boolean;
  stillWaiting(session: Session): boolean;
}

/** For jobs that an update-job sends to other shards: the client, and the asked shard. */
export type Askers = Map<number, { readonly session: number; readonly shard: number }>;

type Follow<Args extends unknown[], Result> = (args: Args, result: Result, seen: readonly Effect[]) => void;

const STATE_NAMES: Record<number, State> = {
  [JobState.Ready]: "ready",
  [JobState.Reserved]: "reserved",
  [JobState.Delayed]: "delayed",
  [JobState.Buried]: "buried",
  [JobState.Moving]: "moving",
};

const OUTCOMES = {
  waits: ReserveOutcome.Waits,
  timedOut: ReserveOutcome.TimedOut,
  deadlineSoon: ReserveOutcome.DeadlineSoon,
} as const;

const PUT_OUTCOMES: Readonly<Record<PutVerdict["kind"], Outcome>> = {
  stored: Outcome.Done,
  duplicate: Outcome.Duplicate,
  full: Outcome.TubeFull,
};

const UPDATE_OUTCOMES = {
  done: Outcome.Done,
  full: Outcome.TubeFull,
  "not found": Outcome.NotFound,
} as const;

const MOVE_OUTCOMES = {
  moved: MoveOutcome.Moved,
  stays: MoveOutcome.Stays,
  full: MoveOutcome.Full,
} as const;

const NOTHING = (): void => {};

export class EngineWitness {
  readonly engine: Engine;
  readonly #host: EffectsHost;
  readonly #shard: number;
  readonly #detached = new Set<Session>();
  /** How far each clearing has come. */
  readonly #clearings = new WeakMap<TubeClearing, { cleared: number; doneId: number }>();
  readonly #model: Model;
  readonly #sink: CommandSink;
  /** Effects of the present call; undefined between calls. */
  #effects: Effect[] | undefined;
  /** What is told of the present call behind its effects. */
  #afterReport = NOTHING;
  /** Where the job of the last move is to go, which is on another shard, and what for. */
  #elsewhere = "";
  #errand: Errand | undefined;
  /** For jobs that an update-job sends away: the client, and the asked shard. */
  readonly #askers: Askers;
  /** Something was called since the last check. */
  touched = false;

  /** `askers` is one for all shards. */
  constructor(
    engine: Engine,
    host: EffectsHost,
    shard: number,
    model: Model,
    sink: CommandSink,
    askers: Askers = new Map(),
  ) {
    this.engine = engine;
    this.#askers = askers;
    this.#host = host;
    this.#shard = shard;
    this.#model = model;
    this.#sink = sink;
    this.#watchEffects();
    this.#watchSessions();
    this.#watchReserves();
    this.#watchBatches();
    this.#watchJobs();
    this.#watchMovesOfJobs();
  }

  // --- wrapping ----------------------------------------------------------------------------------

  /** Has `follow` see each outermost call of an engine's method, with its outcome and effects. */
  #watch<Name extends keyof Engine>(
    name: Name,
    follow: Engine[Name] extends (...args: infer Args) => infer Result ? Follow<Args, Result> : never,
  ): void {
    const engine = this.engine as unknown as Record<string, (...args: unknown[]) => unknown>;
    const original = engine[name]!.bind(engine);
    engine[name] = (...args) => {
      if (this.#effects !== undefined) return original(...args);
      // Checked before: twice in the lists of waits it would send the engine in a circle.
      if (name === "reserve" || name === "reserveBatch" || name === "waitShared")
        assert.equal((args[0] as Session).waiting, Waiting.No, "a session waits once on a shard");
      const seen: Effect[] = [];
      this.#effects = seen;
      let result: unknown;
      try {
        result = original(...args);
      } finally {
        this.#effects = undefined;
      }
      this.touched = true;
      (follow as Follow<unknown[], unknown>)(args, result, seen);
      this.#report(seen);
      this.#afterReport();
      this.#afterReport = NOTHING;
      this.#sink.changed();
      return result;
    };
  }

  #watchEffects(): void {
    const host = this.#host;
    const { reserved, timedOut, deadlineSoon, waitDue, claim } = host;
    host.reserved = (session, slot) => {
      this.#effects?.push({ kind: "reserved", session: session.index, job: this.#idOf(slot) });
      reserved.call(host, session, slot);
    };
    host.timedOut = (session) => {
      this.#effects?.push({ kind: "timedOut", session: session.index });
      timedOut.call(host, session);
    };
    host.deadlineSoon = (session) => {
      this.#effects?.push({ kind: "deadlineSoon", session: session.index });
      deadlineSoon.call(host, session);
    };
    host.waitDue = (session) => {
      this.#effects?.push({ kind: "waitDue", session: session.index });
      waitDue.call(host, session);
    };
    host.claim = (session) => {
      const won = claim.call(host, session);
      this.#effects?.push({ kind: "claim", session: session.index, won });
      return won;
    };
  }

  /** Has the model do what the engine did. */
  #follow<Result>(seen: readonly Effect[], run: () => Result): Result {
    const model = this.#model;
    const result = model.follow(seen, run);
    for (const tube of model.tubes.values()) {
      const real = tube.shard === this.#shard ? this.engine.tubes.get(tube.name) : undefined;
      if (real !== undefined && real.buriedJobs > 1) model.orderBurials(tube, this.#buriedIds(real));
    }
    this.#sink.followed(this.#shard);
    return result;
  }

  #report(seen: readonly Effect[]): void {
    for (const effect of seen) {
      if (effect.kind === "reserved") this.#sink.reserved(effect.session, effect.job);
      else if (effect.kind === "timedOut") this.#sink.refused(effect.session, "TIMED_OUT");
      else if (effect.kind === "deadlineSoon") this.#sink.refused(effect.session, "DEADLINE_SOON");
    }
  }

  #idOf(slot: number): number {
    return this.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
  }

  #session(session: Session): ModelSession {
    return this.#model.session(session.index);
  }

  // --- calls -------------------------------------------------------------------------------------

  /** Sessions on their way to another acceptor have no index by which they could be found. */
  #watchMoves(): void {
    const { engine } = this;
    const detach = engine.detachSession.bind(engine);
    engine.detachSession = (session) => {
      detach(session);
      this.#detached.add(session);
    };
    const adopt = engine.adoptSession.bind(engine);
    engine.adoptSession = (session, index) => {
      this.#detached.delete(session);
      adopt(session, index);
    };
  }

  #watchSessions(): void {
    const model = this.#model;
    this.#watchMoves();
    const shard = this.#shard;
    this.#watch("runDue", ([nowMs], _, seen) => this.#follow(seen, () => model.runDue(shard, nowMs)));
    this.#watch("closeSession", ([session, nowMs], _, seen) =>
      this.#follow(seen, () => model.close(this.#session(session), shard, nowMs)),
    );
    this.#watch("halfClose", ([session, nowMs], _, seen) =>
      this.#follow(seen, () => model.halfClose(this.#session(session), shard, nowMs)),
    );
    this.#watch("use", ([session, name], _, seen) =>
      this.#follow(seen, () => model.use(this.#session(session), name)),
    );
    this.#watch("unuse", ([session], _, seen) =>
      this.#follow(seen, () => model.unuse(this.#session(session), shard)),
    );
    this.#watch("watch", ([session, name], _, seen) =>
      this.#follow(seen, () => model.watch(this.#session(session), name)),
    );
    this.#watch("ignore", ([session, name], _, seen) =>
      this.#follow(seen, () => model.ignore(this.#session(session), name)),
    );
    this.#watch("pause", ([name, seconds, nowMs], found, seen) => {
      assert.equal(
        found,
        this.#follow(seen, () => model.pause(name, shard, seconds, nowMs)),
        "outcome of pause-tube",
      );
      this.#sink.paused(name, seconds, found);
    });
  }

  #watchReserves(): void {
    const model = this.#model;
    const shard = this.#shard;
    this.#watch("reserve", ([session, timeoutMs, nowMs], result, seen) => {
      const expected = this.#follow(seen, () =>
        model.reserve(this.#session(session), shard, timeoutMs, nowMs),
      );
      if (expected === "waits") assert.equal(result, ReserveOutcome.Waits, "a reserve waits");
      else if (expected === "timedOut") assert.equal(result, ReserveOutcome.TimedOut, "a reserve times out");
      else if (expected === "deadlineSoon")
        assert.equal(result, ReserveOutcome.DeadlineSoon, "a reserve is warned");
      else
        assert.equal(result >= 0 ? this.#idOf(result) : result, expected.id, "the job that a reserve gives");
      if (expected === "timedOut") this.#sink.refused(session.index, "TIMED_OUT");
      else if (expected === "deadlineSoon") this.#sink.refused(session.index, "DEADLINE_SOON");
      else if (expected !== "waits") this.#sink.reserved(session.index, expected.id);
    });
    this.#watch("takeUpTo", ([session, pri, id, nowMs], slot, seen) => {
      const expected = this.#follow(seen, () =>
        model.takeUpTo(this.#session(session), shard, pri, id, nowMs),
      );
      assert.equal(
        slot === NO_SLOT ? undefined : this.#idOf(slot),
        expected?.id,
        "the job that a take gives",
      );
      if (expected !== undefined) this.#sink.reserved(session.index, expected.id);
    });
    this.#watch("waitShared", ([session, timeoutAtMs, nowMs], _, seen) =>
      this.#follow(seen, () => model.waitShared(this.#session(session), shard, timeoutAtMs, nowMs)),
    );
    this.#watch("stopSharedWait", ([session], _, seen) =>
      this.#follow(seen, () => model.stopSharedWait(this.#session(session), shard)),
    );
  }

  #watchBatches(): void {
    const model = this.#model;
    const shard = this.#shard;
    this.#watch("reserveBatch", ([session, limits, timeoutMs, nowMs, slots], outcome, seen) => {
      const expected = this.#follow(seen, () =>
        model.reserveBatch(this.#session(session), shard, limits, timeoutMs, nowMs),
      );
      if (typeof expected === "string") {
        assert.equal(outcome, OUTCOMES[expected], "a batch without jobs");
        if (expected === "timedOut") this.#sink.refused(session.index, "TIMED_OUT");
        else if (expected === "deadlineSoon") this.#sink.refused(session.index, "DEADLINE_SOON");
        return;
      }
      const ids = expected.map(({ id }) => id);
      assert.equal(outcome, ids.length, "how many jobs a batch gives");
      assert.deepEqual(
        slots.map((slot) => this.#idOf(slot)),
        ids,
        "the jobs that a batch gives",
      );
      this.#sink.reservedBatch(session.index, ids, false);
    });
    this.#watch("listBatch", ([session, limits, nowMs, slots], _, seen) => {
      const expected = this.#follow(seen, () =>
        model.listBatch(this.#session(session), shard, limits, nowMs),
      );
      assert.deepEqual(
        slots.map((slot) => this.#idOf(slot)),
        expected.map(({ id }) => id),
        "the jobs that a shard has for a batch",
      );
    });
    this.#watch("takeBatch", ([session, listed, isAlone, nowMs, slots], taken, seen) => {
      const expected = this.#follow(seen, () =>
        model.takeBatch(this.#session(session), shard, listed, isAlone, nowMs),
      );
      assert.deepEqual(
        slots.map((slot) => (slot === NO_SLOT ? undefined : this.#idOf(slot))),
        expected.map((job) => job?.id),
        "the jobs that a shard gives for a batch",
      );
      const given = expected.filter((job) => job !== undefined).map(({ id }) => id);
      assert.equal(taken, given.length, "how many jobs a shard gives for a batch");
      if (given.length > 0) this.#sink.reservedBatch(session.index, given, true);
    });
    this.#watch("abortWait", ([session, nowMs], ended, seen) => {
      const expected = this.#follow(seen, () => model.abortWait(this.#session(session), shard, nowMs));
      assert.equal(ended, expected, "whether a wait is aborted");
      // A job that has just come is told first.
      if (ended) this.#afterReport = () => this.#sink.aborted(session.index);
    });
    this.#watch("touchSome", ([session, begins, jobsMax, nowMs], isAll, seen) => {
      const client = this.#session(session);
      const expected = this.#follow(seen, () => model.touchSome(client, shard, begins, jobsMax, nowMs));
      assert.equal(isAll, expected, "whether all are touched");
      if (isAll) this.#sink.touchedAll(session.index, shard, model.held(client, shard).length);
    });
  }

  #watchJobs(): void {
    const model = this.#model;
    const shard = this.#shard;
    this.#watch("put", ([session, job, body, nowMs, tubeName, attributes], outcome, seen) => {
      if (outcome === Outcome.NoRoom) {
        this.#follow(seen, () => model.runDue(shard, nowMs));
        this.#sink.putRefused(session.index);
        return;
      }
      const { id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes } = job;
      const bytes = new Uint8Array(bodyBytes);
      this.engine.bodies.read(body, 0, bytes, 0, bodyBytes);
      const text = Buffer.from(bytes).toString("latin1");
      const put = { id, pri, delaySeconds, ttrSeconds, body: text, policy: policyOf(attributes) };
      const client = this.#session(session);
      const isNamed = tubeName !== undefined && tubeName !== "";
      const verdict = this.#follow(seen, () => {
        // Before the tube is looked for: it may go with its last job, which expires.
        model.runDue(shard, nowMs);
        const tube = isNamed ? model.tube(tubeName) : model.usedTube(client, shard);
        return model.put(put, tube, nowMs, delayMillis);
      });
      assert.equal(outcome, PUT_OUTCOMES[verdict.kind], "outcome of a put");
      if (verdict.kind === "stored") this.#sink.put(session.index, id);
      else if (verdict.kind === "duplicate") {
        assert.equal(this.engine.policies.duplicateOf, verdict.of, "whose key it is");
        this.#sink.putDeclined(session.index, `DUPLICATE ${verdict.of}\r\n`);
      } else this.#sink.putDeclined(session.index, isNamed ? "TUBE_FULL\r\n" : "OUT_OF_MEMORY\r\n");
    });
    this.#watch("beginSetting", ([pattern, values], _, seen) =>
      this.#follow(seen, () => model.set(shard, pattern, values)),
    );
    this.#watch("applySettings", ([tube, , nowMs], _, seen) =>
      this.#follow(seen, () => model.applySettings(tube.name, nowMs)),
    );
    this.#watch("kick", ([session, bound, nowMs], count, seen) => {
      const tube = model.usedTube(this.#session(session), shard);
      assert.equal(
        count,
        this.#follow(seen, () => model.kick(tube, bound, nowMs)),
        "count of a kick",
      );
      this.#sink.kicked(session.index, tube.name, bound, count);
    });
    this.#watch("clear", ([clearing, , nowMs], done, seen) => {
      const jobs = choiceOf(clearing);
      const { walk, cleared } = clearing;
      const before = this.#clearings.get(clearing) ?? { cleared: 0, doneId: 0 };
      // A search of large bodies takes several steps, each of which goes on behind the last id.
      const after = { cleared, doneId: done ? walk.lastId : walk.doneId };
      this.#clearings.set(clearing, after);
      const count = this.#follow(seen, () => {
        model.runDue(shard, nowMs);
        const limit = jobs.limit === undefined ? undefined : jobs.limit - before.cleared;
        return model.clear({ ...jobs, limit }, nowMs, [before.doneId, after.doneId]);
      });
      assert.equal(cleared - before.cleared, count, "count of a step of a clear-tube");
      if (done) this.#sink.cleared(jobs, cleared);
    });
    this.#watch("kickJob", ([id, nowMs], outcome, seen) => {
      this.#checkWaited("kick-job", id);
      const settled = this.#isSettled(id);
      const done = this.#agree(
        outcome,
        this.#follow(seen, () => model.kickJob(shard, id, nowMs)),
        "kick-job",
      );
      this.#sink.kickJob(shard, id, done, settled);
    });
    this.#watch("reserveJob", ([session, id, nowMs], outcome, seen) =>
      this.#byId("reserve-job", session, id, outcome, seen, (client) =>
        model.reserveJob(client, shard, id, nowMs),
      ),
    );
    this.#watch("delete", ([session, id, nowMs], outcome, seen) =>
      this.#byId("delete", session, id, outcome, seen, (client) => model.delete(client, shard, id, nowMs)),
    );
    this.#watch("release", ([session, id, pri, delaySeconds, nowMs, reason], outcome, seen) =>
      this.#byId("release", session, id, outcome, seen, (client) =>
        model.release(client, shard, id, { pri, delaySeconds, reason: reason?.text ?? "" }, nowMs),
      ),
    );
    this.#watch("bury", ([session, id, pri, nowMs, reason], outcome, seen) =>
      this.#byId("bury", session, id, outcome, seen, (client) =>
        model.bury(client, shard, id, pri, nowMs, reason?.text ?? ""),
      ),
    );
    this.#watch("update", ([session, id, change, nowMs], outcome, seen) => {
      this.#checkWaited("update-job", id);
      const settled = this.#isSettled(id);
      const client = this.#session(session);
      const became = this.#follow(seen, () => model.update(client, shard, id, change, nowMs));
      const expected = typeof became === "string" ? UPDATE_OUTCOMES[became] : Outcome.OtherShard;
      assert.equal(outcome, expected, "outcome of update-job");
      if (typeof became === "object") {
        this.#errand = became;
        this.#askers.set(id, { session: session.index, shard });
      } else if (became === "full") this.#sink.updateRefused(session.index, shard, id);
      else this.#sink.byId(session.index, shard, "update-job", id, became === "done", settled);
    });
    this.#watch("touch", ([session, id, nowMs], outcome, seen) =>
      this.#byId("touch", session, id, outcome, seen, (client) => model.touch(client, shard, id, nowMs)),
    );
  }

  #jobOf(id: number): ModelJob {
    const job = this.#model.jobs.get(id);
    assert.ok(job !== undefined, `job ${id} that moves is there`);
    return job;
  }

  #watchMovesOfJobs(): void {
    const model = this.#model;
    const shard = this.#shard;
    this.#watch("move", ([slot, target, asReady, nowMs], outcome, seen) => {
      if (outcome === MoveOutcome.Elsewhere) {
        this.#elsewhere = target;
        this.#errand = { travel: "move", asReady, delayMs: undefined, facts: undefined };
        return;
      }
      const job = this.#jobOf(this.#idOf(slot));
      const from = job.tube.name;
      const became = this.#follow(seen, () => model.move(job, target, asReady, nowMs));
      assert.equal(outcome, MOVE_OUTCOMES[became], "outcome of a move");
      if (became === "moved") this.#sink.moved(from, target, true);
    });
    this.#watch("depart", ([slot, transfer], _, seen) => {
      const job = this.#jobOf(this.#idOf(slot));
      const errand = this.#errand;
      assert.ok(errand !== undefined, `it is known why job ${job.id} leaves`);
      this.#errand = undefined;
      this.#follow(seen, () => model.depart(job, transfer, errand));
      if (errand.travel === "move") this.#sink.moved(job.tube.name, this.#elsewhere, false);
    });
    this.#watch("leavesFor", ([id, nowMs], target, seen) => {
      const expected = this.#follow(seen, () => model.leavesFor(shard, id, nowMs));
      assert.equal(target, expected, `where job ${id}, which has died, has to go`);
      if (target !== "")
        this.#errand = { travel: "death", asReady: true, delayMs: undefined, facts: undefined };
    });
    this.#watch("arrive", ([job, , , , nowMs], outcome, seen) => {
      const known = this.#jobOf(job.id);
      const { tube, errand } = known;
      const isTaken = this.#follow(seen, () => model.arrive(known, job.tube, nowMs));
      assert.equal(outcome, isTaken ? Outcome.Done : Outcome.TubeFull, "outcome of an arrival");
      if (errand!.travel === "move" && isTaken) this.#sink.moved(tube.name, job.tube, true);
      const asker = this.#askers.get(job.id);
      this.#askers.delete(job.id);
      if (asker === undefined) return;
      if (isTaken) this.#sink.byId(asker.session, asker.shard, "update-job", job.id, true, true);
      else this.#sink.updateRefused(asker.session, asker.shard, job.id);
    });
    this.#watch("departed", ([id, transfer, nowMs], _, seen) =>
      this.#follow(seen, () => model.departed(id, shard, transfer, nowMs)),
    );
    this.#watch("stay", ([id, transfer, nowMs], _, seen) =>
      this.#follow(seen, () => model.stay(this.#jobOf(id), transfer, nowMs)),
    );
  }

  /** Whether the answer of this shard is the answer: the job lives here, or nowhere. */
  #isSettled(id: number): boolean {
    const job = this.#model.jobs.get(id);
    return job === undefined || job.tube.shard === this.#shard;
  }

  /** A command that may change an unreserved job waits for a moving one. */
  #checkWaited(name: string, id: number): void {
    if (name === "release" || name === "bury" || name === "touch") return;
    const slot = this.engine.find(id);
    if (slot === NO_SLOT) return;
    const state = this.engine.jobs.pageOf(slot).state[rowOf(slot)]!;
    assert.notEqual(STATE_NAMES[state], "moving", `job ${id} is not on its way when a ${name} looks at it`);
  }

  /**
   * Whether what is left here of a job says that a session does not hold it: it did not when the
   * job left, nor does it now.
   */
  #hasLeft(name: ByIdCommand, session: Session, id: number): boolean {
    if (name !== "release" && name !== "bury" && name !== "touch") return false;
    const isLeft = this.#model.copiesOn(this.#shard).some((copy) => copy.id === id);
    return isLeft && this.#model.jobs.get(id)?.holder !== this.#session(session);
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
      this.#follow(seen, () => run(this.#session(session))),
      name,
    );
    this.#sink.byId(session.index, this.#shard, name, id, done, settled);
  }

  #agree(outcome: Outcome, expected: ByIdResult, name: string): boolean {
    assert.equal(outcome, expected === "done" ? Outcome.Done : Outcome.NotFound, `outcome of ${name}`);
    return expected === "done";
  }

  // --- states ------------------------------------------------------------------------------------

  /** Checks the engine's invariants, and that it holds what the model holds. */
  check(): void {
    if (!this.touched) return;
    this.touched = false;
    const sessions = [...this.#model.sessions.keys(), ...this.#model.moved.keys(), ...this.#detached];
    checkInvariants(this.engine, sessions, (session) => this.#host.stillWaiting(session));
    this.#compareJobs();
    this.#compareTubes();
    this.#compareWaits();
  }

  #compareJobs(): void {
    const { engine } = this;
    const expected = [...this.#model.jobs.values()].filter((job) => job.tube.shard === this.#shard);
    const keys = this.#model.keys.filter(({ tube }) => this.#model.tubeShard(tube) === this.#shard);
    assert.equal(engine.policies.keys.table.size, keys.length, `unique keys of shard ${this.#shard}`);
    for (const { tube, key, id, isHeld, untilMs } of keys) {
      const { table } = engine.policies.keys;
      const row = table.find({
        tube: Buffer.from(tube, "latin1"),
        bytes: Buffer.from(key, "latin1"),
        start: 0,
        end: key.length,
      });
      assert.ok(row >= 0, `key ${key} of ${tube} is known`);
      assert.deepEqual(
        [table.idOf(row), table.slotOf(row) >= 0, table.untilOf(row)],
        [id, isHeld, untilMs],
        `who has key ${key} of ${tube}, and until when`,
      );
    }
    const copies = this.#model.copiesOn(this.#shard);
    assert.equal(engine.jobs.live, expected.length + copies.length, `jobs of shard ${this.#shard}`);
    for (const job of expected) {
      const slot = engine.find(job.id);
      assert.notEqual(slot, NO_SLOT, `job ${job.id} is there`);
      const page = engine.jobs.pageOf(slot);
      const row = rowOf(slot);
      const timed = job.state === "reserved" || job.state === "delayed";
      assert.deepEqual(
        {
          state: STATE_NAMES[page.state[row]!],
          tube: engine.tubeOf(slot).name,
          pri: page.pri[row],
          holder: job.state === "reserved" ? page.holder[row] : undefined,
          deadlineAtMs: timed ? page.deadlineAtMs[row] : 0,
          policy: policyAt(engine, slot),
          counts: [
            page.reserves[row],
            page.timeouts[row],
            page.releases[row],
            page.buries[row],
            page.kicks[row],
          ],
        },
        {
          state: job.state,
          tube: job.tube.name,
          pri: job.pri,
          holder: job.holder?.index,
          deadlineAtMs: timed ? job.deadlineAtMs : 0,
          policy: compared(job, this.#model.keyOf(job)),
          counts: [job.reserves, job.timeouts, job.releases, job.buries, job.kicks],
        },
        `job ${job.id}`,
      );
    }
  }

  #compareTubes(): void {
    const expected = [...this.#model.tubes.values()].filter((tube) => tube.shard === this.#shard);
    const patterns = [...this.#model.settings[this.#shard]!.byPattern.entries()];
    assert.deepEqual([...this.engine.settings.entries()].sort(), patterns.sort(), "what is set");
    assert.deepEqual([...this.engine.tubes.keys()].sort(), expected.map((tube) => tube.name).sort(), "tubes");
    for (const tube of expected) {
      const real = this.engine.tubes.get(tube.name)!;
      assert.deepEqual(
        [real.using, real.watching, real.totalJobs, real.deletes, real.pauses, real.pauseSeconds],
        [tube.users.size, tube.watchers.size, tube.totalJobs, tube.deletes, tube.pauses, tube.pauseSeconds],
        `users, watchers, jobs, deletes, pauses and pause of ${tube.name}`,
      );
      assert.deepEqual(settingsAt(real), settingsOf(tube), `settings, counts and groups of ${tube.name}`);
      assert.deepEqual(
        this.#buriedIds(real),
        this.#model.buried(tube).map((job) => job.id),
        `buried jobs of ${tube.name} in the order of their burial`,
      );
    }
  }

  #buriedIds(tube: Tube): number[] {
    const ids: number[] = [];
    for (let slot = tube.buried.first; slot !== NO_SLOT; ) {
      const page = this.engine.jobs.pageOf(slot);
      ids.push(page.id[rowOf(slot)]!);
      slot = page.next[rowOf(slot)]!;
    }
    return ids;
  }

  #compareWaits(): void {
    const real: { session: number; shared: boolean; order: number }[] = [];
    for (const index of this.#model.sessions.keys()) {
      const session = this.engine.session(index);
      if (session.waiting === Waiting.No) continue;
      real.push({ session: index, shared: session.waiting === Waiting.Shared, order: session.waitOrder });
    }
    real.sort((a, b) => a.order - b.order);
    assert.deepEqual(
      real.map(({ session, shared }) => ({ session, shared })),
      this.#model.waits
        .filter((wait) => wait.shard === this.#shard)
        .map((wait) => ({ session: wait.session.index, shared: wait.number !== undefined })),
      "who waits, in the order of waits",
    );
  }
}

/** Which jobs a clearing that has come to its end has meant. */
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
