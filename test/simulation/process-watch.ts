// Watch of a simulated process: every call of an engine, claim of a wait and move of a connection
// goes to the model and to the client that it concerns.

import assert from "node:assert/strict";
import type { AcceptorCore } from "../../src/acceptor/connection/acceptor-core.ts";
import { NO_SLOT } from "../../src/engine/jobs/job-table.ts";
import { RequestFlag } from "../../src/message/request.ts";
import { UNKNOWN_SHARD } from "../../src/ring/shared-words.ts";
import type * as command from "./client/command.ts";
import type { Command } from "./client/command.ts";
import type { SimClient } from "./client/sim-client.ts";
import { isSameChoice } from "./model/job-choice.ts";
import type { FakeSocket } from "./server/fake-socket.ts";
import type { SimulationState } from "./simulation-state.ts";
import type { Askers } from "./witness/engine-calls.ts";
import { EngineWitness } from "./witness/engine-witness.ts";

/** Numbers of sessions between two acceptors begin here. */
const IN_TRANSIT = 100_000;

export class ProcessWatch {
  readonly #simulation: SimulationState;

  constructor(simulation: SimulationState) {
    this.#simulation = simulation;
  }

  watchServer(): void {
    const server = this.#simulation.server;
    this.#simulation.world = {
      nowMs: () => server.nowMs,
      isDraining: () => this.#simulation.draining,
      isFull: () => this.#simulation.wasFull,
      promises: this.#simulation.log?.ledger,
      counts: this.#simulation.counts,
      closedAt: (session, acceptor) => {
        const closed = this.#simulation.closed.get(session);
        return closed === undefined || closed.acceptor === acceptor ? Number.POSITIVE_INFINITY : closed.place;
      },
      nextPlace: () => ++this.#simulation.lastPlace,
      checkSet: (pattern, values) => this.#checkSet(pattern, values),
    };
    this.#simulation.wasFull = false;
    for (const records of server.records) {
      const roomForPut = records.roomForPut.bind(records);
      records.roomForPut = () => {
        this.#simulation.wasFull = server.isFull;
        return roomForPut();
      };
      const put = records.put.bind(records);
      records.put = (slot, isNew) => {
        const done = put(slot, isNew);
        if (!done) this.#simulation.wasFull = server.isFull;
        return done;
      };
    }
    const askers: Askers = new Map();
    this.#simulation.witnesses = server.shards.map(
      (core, shard) =>
        new EngineWitness(core.engine, core, shard, this.#simulation.model, this.#sink(), askers),
    );
    for (const witness of this.#simulation.witnesses) witness.touched = true;
    server.onDeparted = (socket) => this.#renameClient(socket, undefined);
    server.onLanded = (socket, acceptor) => this.#renameClient(socket, acceptor);
    for (const [acceptor, core] of server.acceptors.entries()) {
      this.#watchClaims(core, acceptor);
      const { slots } = core;
      const nameWorker = core.nameWorker.bind(core);
      core.nameWorker = (slot, name) => {
        nameWorker(slot, name);
        this.#clientOf(this.#simulation.sessionOf(acceptor, slot)).onNamed(name);
      };
      const vacate = slots.vacate.bind(slots);
      slots.vacate = (slot) => {
        vacate(slot);
        this.#simulation.model.connections.forgetMoved(this.#simulation.sessionOf(acceptor, slot));
      };
    }
    if (this.#simulation.forgetful > 0)
      for (const core of server.acceptors) this.#forget(core, this.#simulation.forgetful);
  }

  /** Returns whether a shard that lacks a job leaves the answer to the search of the acceptor. */
  #isSought(shard: number, id: number): boolean {
    const { engine, replies } = this.#simulation.server.shards[shard]!;
    const isProbe = (replies.request.flags & RequestFlag.Probe) !== 0;
    return engine.find(id) === NO_SLOT && (isProbe || replies.mayBeElsewhere(id));
  }

  #sink(): ConstructorParameters<typeof EngineWitness>[4] {
    const jobOf = (id: number) => this.#simulation.model.jobs.get(id)!;
    return {
      put: (session, job) => {
        this.#simulation.log?.ledger.checkNew(job);
        this.#clientOf(session).effects.onPut(jobOf(job));
      },
      ticked: (job, key) => {
        this.#simulation.log?.ledger.checkNew(job);
        const before = this.#simulation.ticks.get(key);
        assert.equal(before, undefined, `the tick ${key} comes once: job ${before} before job ${job}`);
        this.#simulation.ticks.set(key, job);
        assert.ok(!this.#simulation.draining, `the tick ${key} comes although the server drains`);
      },
      ran: (job, schedule) => {
        this.#simulation.log?.ledger.checkNew(job);
        assert.ok(!this.#simulation.draining, `${schedule} is run although the server drains`);
        const isOwn = (each: Command): boolean => each.kind === "run" && each.schedule === schedule;
        const isWanted = this.#anonymous(isOwn, `INSERTED ${job}\r\n`, true);
        assert.ok(isWanted, `job ${job} of ${schedule} is put because a client has run it`);
      },
      // A clear-tube may have ended it since, in the same call.
      reserved: (session, job) =>
        this.#clientOf(session).effects.onReserved(this.#simulation.model.given.get(job)!),
      reservedBatch: (session, jobs, isPart) =>
        this.#clientOf(session).effects.onReservedBatch(jobs.map(jobOf), isPart),
      touchedAll: (session, shard, held) => this.#clientOf(session).effects.onTouchedAll(shard, held),
      aborted: (session) => this.#clientOf(session).effects.onRefused("ABORTED"),
      refused: (session, reply) => this.#clientOf(session).effects.onRefused(reply),
      byId: (session, shard, name, id, done, settled) => {
        const isSought = !done && this.#isSought(shard, id);
        this.#clientOf(session).effects.onById(name, shard, id, { done, settled, isSought });
      },
      kicked: (session, tube, bound, count) => this.#clientOf(session).effects.onKicked(tube, bound, count),
      kickJob: (_, id, done, settled) =>
        this.#anonymous(
          (each) => each.kind === "kick-job" && each.id === id,
          done ? "KICKED\r\n" : settled ? "NOT_FOUND\r\n" : undefined,
          done,
        ),
      cancelJob: (id, result, settled) =>
        this.#anonymous(
          (each) => each.kind === "cancel-job" && each.id === id,
          result === "done"
            ? "CANCELLED\r\n"
            : result === "marked"
              ? "CANCELLING\r\n"
              : settled
                ? "NOT_FOUND\r\n"
                : undefined,
          result !== "not found",
        ),
      paused: (name, seconds, found) =>
        this.#anonymous(
          (each) => each.kind === "pause" && each.tube === name && each.seconds === seconds,
          found ? "PAUSED\r\n" : "NOT_FOUND\r\n",
          true,
        ),
      cleared: (jobs, count) =>
        this.#anonymous(
          (each) => each.kind === "clear" && isSameChoice(each.jobs, jobs),
          `CLEARED ${count}\r\n`,
          true,
        ),
      moved: (from, to, isDone) =>
        assert.ok(
          this.#simulation.clients.some((client) => client.effects.onMoved(from, to, isDone)),
          `a job moves from ${from} to ${to} because a client asked for it`,
        ),
      updateRefused: (session, id) => this.#clientOf(session).effects.onUpdateRefused(id),
      putRefused: (session) => this.#clientOf(session).effects.onPutRefused(),
      putDeclined: (session, reply) => this.#clientOf(session).effects.onPutDeclined(reply),
      followed: (shard) => {
        this.#simulation.log?.ledger.follow(
          shard,
          this.#simulation.model.changes,
          this.#simulation.server.nowMs,
        );
        this.#simulation.model.changes = [];
      },
      changed: () => {
        for (const client of this.#simulation.clients) client.noteReads();
      },
    };
  }

  #anonymous(matches: (each: Command) => boolean, reply: string | undefined, isFinal: boolean): boolean {
    // Once it is answered on the shard that counts, the other shards that were asked have nothing
    // to tell.
    return this.#simulation.clients.some((client) => client.effects.onAnonymous(matches, reply, isFinal));
  }

  #clientOf(session: number): SimClient {
    const client = this.#simulation.clients.findLast((each) => each.session === session);
    assert.ok(client !== undefined, `session ${session} belongs to a client`);
    return client;
  }

  #watchClaims(core: AcceptorCore, acceptor: number): void {
    const { claims } = core;
    const open = claims.open.bind(claims);
    const claim = claims.claim.bind(claims);
    claims.open = (slot, number) => {
      this.#simulation.model.waiting.openWait(
        this.#simulation.model.connections.session(this.#simulation.sessionOf(acceptor, slot)),
        number,
      );
      open(slot, number);
    };
    claims.claim = (slot, number) => {
      const expected = this.#simulation.model.waiting.acceptorClaims(
        this.#simulation.model.connections.session(this.#simulation.sessionOf(acceptor, slot)),
        number,
      );
      const won = claim(slot, number);
      assert.equal(won, expected, "an acceptor ends a wait exactly if it is open");
      return won;
    };
  }

  /** A set-tube was answered: all shards that it means have it, and so have their tubes. */
  #checkSet(pattern: string, values: command.SettingValueChanges): void {
    const isWide = pattern.endsWith("*");
    for (const [shard, settings] of this.#simulation.model.settings.entries()) {
      if (!isWide && this.#simulation.model.registry.tubeShard(pattern) !== shard) continue;
      const has: command.SettingValueChanges = settings.byPattern.get(pattern) ?? {};
      for (const name of Object.keys(values) as (keyof typeof values)[])
        assert.equal(has[name], values[name], `${name} of ${pattern} on shard ${shard} when it is set`);
    }
    for (const { name, shard, resolved } of this.#simulation.model.tubes.values()) {
      const { sources, values: told } = this.#simulation.model.settings[shard]!.resolve(name);
      for (const each of Object.keys(values) as (keyof typeof values)[])
        if (sources[each] === pattern)
          assert.equal(resolved.values[each], told[each], `${each} of tube ${name} when ${pattern} is set`);
    }
  }

  /** A directory may have forgotten any job: then all shards are asked. */
  #forget(core: AcceptorCore, probability: number): void {
    const find = core.places.shardOfJob.bind(core.places);
    core.places.shardOfJob = (id) => (this.#simulation.random.chance(probability) ? UNKNOWN_SHARD : find(id));
  }

  /** A connection has left its acceptor, or has come to one: its session has another number. */
  #renameClient(socket: FakeSocket, acceptor: number | undefined): void {
    const client = this.#simulation.clients.find((each) => each.socket === socket);
    assert.ok(client !== undefined, "only clients move");
    const now =
      acceptor === undefined
        ? IN_TRANSIT + ++this.#simulation.transits
        : this.#simulation.sessionOf(acceptor, socket.slot);
    // The client that had the slot before is gone.
    for (const other of this.#simulation.clients)
      if (other.session === now) other.session = IN_TRANSIT + ++this.#simulation.transits;
    if (acceptor === undefined) this.#simulation.model.connections.keepMoved(client.session);
    this.#simulation.model.connections.rename(client.session, now);
    this.#simulation.closed.delete(now);
    const closed = this.#simulation.closed.get(client.session);
    this.#simulation.closed.delete(client.session);
    if (closed !== undefined) this.#simulation.closed.set(now, closed);
    client.session = now;
    if (acceptor !== undefined) client.acceptor = acceptor;
    this.#simulation.say(
      `client ${client.name} is ${acceptor === undefined ? "on the way" : `session ${now}`}`,
    );
  }
}
