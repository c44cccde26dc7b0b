// Calls of an engine and their effects, as the model follows them.

import assert from "node:assert/strict";
import type { Engine } from "../../../src/engine/engine.ts";
import type { TubeClearing } from "../../../src/engine/job-walk.ts";
import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { type Session, Waiting } from "../../../src/engine/state/session.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import type { Model } from "../model/model.ts";
import type { Effect, Errand, ModelSession } from "../model/model-types.ts";
import type { CommandSink } from "./command-sink.ts";

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

export class EngineCalls {
  readonly engine: Engine;
  readonly host: EffectsHost;
  readonly shard: number;
  readonly detached = new Set<Session>();
  /** Progress of each clearing. */
  readonly clearings = new WeakMap<TubeClearing, { cleared: number; doneId: number }>();
  readonly model: Model;
  readonly sink: CommandSink;
  /** Effects of the present call; undefined between calls. */
  #effects: Effect[] | undefined;
  /** Report about the present call that follows its effects. */
  afterReport = NOTHING;
  /** Destination of the last move to another shard, and its errand. */
  elsewhere = "";
  errand: Errand | undefined;
  /** For jobs that an update-job sends away: the client, and the asked shard. */
  readonly askers: Askers;
  /** Something was called since the last check. */
  touched = false;

  constructor(
    engine: Engine,
    host: EffectsHost,
    shard: number,
    model: Model,
    sink: CommandSink,
    askers: Askers,
  ) {
    this.engine = engine;
    this.askers = askers;
    this.host = host;
    this.shard = shard;
    this.model = model;
    this.sink = sink;
    this.#watchEffects();
  }

  /** Has `follow` see each outermost call of an engine's method, with its outcome and effects. */
  watch<Name extends keyof Engine & string>(
    name: Name,
    follow: Engine[Name] extends (...args: infer Args) => infer Result ? Follow<Args, Result> : never,
  ): void {
    this.watchPart(this.engine, name, follow);
  }

  /** Does the same for a method of a part of the engine. */
  watchPart<Part extends object, Name extends keyof Part & string>(
    part: Part,
    name: Name,
    follow: Part[Name] extends (...args: infer Args) => infer Result ? Follow<Args, Result> : never,
  ): void {
    const methods = part as unknown as Record<string, (...args: unknown[]) => unknown>;
    const original = methods[name]!.bind(part);
    methods[name] = (...args) => {
      if (this.#effects !== undefined) return original(...args);
      // Checked before: twice in the lists of waits it would send the engine in a circle.
      if (name === "reserve" || name === "waitShared")
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
      this.afterReport();
      this.afterReport = NOTHING;
      this.sink.changed();
      return result;
    };
  }

  #watchEffects(): void {
    const host = this.host;
    const { reserved, timedOut, deadlineSoon, waitDue, claim } = host;
    host.reserved = (session, slot) => {
      this.#effects?.push({ kind: "reserved", session: session.index, job: this.idOf(slot) });
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
  follow<Result>(seen: readonly Effect[], run: () => Result): Result {
    const model = this.model;
    const result = model.follow(seen, run);
    for (const tube of model.tubes.values()) {
      const real = tube.shard === this.shard ? this.engine.tubes.get(tube.name) : undefined;
      if (real !== undefined && real.buriedJobs > 1) model.queues.orderBurials(tube, this.buriedIds(real));
    }
    this.sink.followed(this.shard);
    return result;
  }

  #report(seen: readonly Effect[]): void {
    for (const effect of seen) {
      if (effect.kind === "reserved") this.sink.reserved(effect.session, effect.job);
      else if (effect.kind === "timedOut") this.sink.refused(effect.session, "TIMED_OUT");
      else if (effect.kind === "deadlineSoon") this.sink.refused(effect.session, "DEADLINE_SOON");
    }
  }

  idOf(slot: number): number {
    return this.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
  }

  session(session: Session): ModelSession {
    return this.model.connections.session(session.index);
  }

  buriedIds(tube: Tube): number[] {
    const ids: number[] = [];
    for (let slot = tube.buried.first; slot !== NO_SLOT; ) {
      const page = this.engine.jobs.pageOf(slot);
      ids.push(page.id[rowOf(slot)]!);
      slot = page.next[rowOf(slot)]!;
    }
    return ids;
  }
}

const NOTHING = (): void => {};
