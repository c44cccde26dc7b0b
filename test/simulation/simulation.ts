// Runs the whole server with random clients on a random schedule from one seed, and checks every
// step and every reply.
//
// The seed determines which thread goes on, how long a thread is held up, how much a client sends,
// reads or withholds, when it vanishes, how far time jumps, and the size of the server. The same
// seed gives the same run.

import assert from "node:assert/strict";
import type { AcceptorCore } from "../../src/acceptor/connection/acceptor-core.ts";
import { Counter } from "../../src/message/topology.ts";
import { UNKNOWN_SHARD } from "../../src/ring/job-directory.ts";
import { commandIn } from "../support/conversations/command-lines.ts";
import { checkArenaAtRest } from "../support/in-process/engine-invariants.ts";
import { checkRings } from "../support/in-process/ring-invariants.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import type { Command } from "./command.ts";
import * as command from "./command.ts";
import type { FakeSocket } from "./fake-socket.ts";
import { type InProcessOptions, InProcessServer, LogIsGone } from "./in-process-server.ts";
import { CommandCounts } from "./model/command-counts.ts";
import type { ProcessEnd } from "./model/durability-ledger.ts";
import { isSameChoice, type JobChoice } from "./model/job-choice.ts";
import { Model } from "./model/model.ts";
import type { PutOptions } from "./model/model-policies.ts";
import { SimClient, type SimWorld } from "./sim-client.ts";
import { SimulatedLog } from "./simulated-log.ts";
import { type Askers, type ByIdCommand, EngineWitness } from "./witness.ts";

/** Numbers of sessions between two acceptors begin here. */
const IN_TRANSIT = 100_000;
const JOB_BYTES_MAX = 6000;
/** More than is sent of a reply before its client has read some. */
const HUGE_BODY_BYTES = 300_000;
const CLIENTS_MAX = 7;
const PENDING_MAX = 12;
const TUBES = ["default", "a", "b", "c", "d", "e", "wide-0", "wide-1"];
const WIDE_TUBES = Array.from({ length: 10 }, (_, i) => `wide-${i}`);

/** How many commands are none of beanstalkd's. */
const EXTENSION_SHARE = 0.2;
/** The same where jobs have options and tubes settings. */
const POLICY_SHARE = 0.5;
/** Delays of puts that may have fractions of seconds. */
const DELAYS_MS: readonly [number, ...number[]] = [0, 0, 0, 1, 500, 1999];

/**
 * A token in 128 ms, a second, 4 s: powers of two, so that a sum of tokens is never rounded, and
 * the model's is the engine's.
 */
const RATES = ["1000/128", "125/128", "125/512"];

const STATES = ["ready", "delayed", "buried", "reserved"] as const;

/** Weights of puts and reserves: with more reserves than puts most of them wait. */
const APPETITES: readonly [[number, number], ...[number, number][]] = [
  [10, 9],
  [8, 16],
  [4, 16],
];

/** Breaks the server before it starts, for the canary. */
export type Plant = (server: InProcessServer) => void;

export interface SimulationOptions {
  readonly seed: number;
  readonly steps: number;
  /** Plays only these steps, so that a failure can be told with fewer. */
  readonly only?: ReadonlySet<number>;
  /** Makes the server; a planted bug may live in a subclass. */
  readonly createServer?: (options: InProcessOptions) => InProcessServer;
  readonly plant?: Plant;
  /** Whether clients send commands that beanstalkd does not have; they do if it is left out. */
  readonly extensions?: boolean;
  /**
   * Whether jobs have options and tubes settings, where there is no log; they do if it is left out.
   */
  readonly policies?: boolean;
  /**
   * Whether there is a log, and jobs have options and tubes settings all the same; every other run
   * with a log is so where nothing is said of extensions.
   */
  readonly durable?: boolean;
  /** Whether jobs are moved; they are where nothing is said of extensions. */
  readonly jobMoves?: boolean;
  /** Told of each step before it is taken. */
  readonly onStep?: (step: number) => void;
}

export interface SimulationResult {
  readonly commands: number;
  /** Names of the commands that were sent with nothing wrong in them. */
  readonly sent: ReadonlySet<string>;
  readonly schedulerSteps: number;
  /** Processes that ended and were followed by another. */
  readonly restarts: number;
  readonly shape: string;
}

/** Runs one simulation; throws what was found, with the step in the message. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const simulation = new Simulation(options);
  const { only } = options;
  let step = 0;
  try {
    await simulation.begin();
    for (; step < options.steps; step++) {
      options.onStep?.(step);
      if (only?.has(step) ?? true) await simulation.step(step);
    }
    await simulation.finish();
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    const where = `seed ${options.seed}, step ${step} of ${options.steps}, ${simulation.shape}`;
    throw new Error(`${where}: ${what}\n  last: ${simulation.lastActs.join("\n        ")}`, { cause: error });
  }
  return simulation.result;
}

class Simulation {
  /** What the simulation did last, for the message. */
  readonly lastActs: string[] = [];
  readonly #options: SimulationOptions;
  readonly #random: SeededRandom;
  readonly #log: SimulatedLog | undefined;
  /** How much the clients like to do at once. */
  readonly #hurry: number;
  readonly #puts: number;
  readonly #reserves: number;
  readonly #bigBodies: number;
  readonly #extensions: boolean;
  /** Nothing is said of what it draws, as where a planted bug is looked for. */
  readonly #isUsual: boolean;
  readonly #policies: boolean;
  readonly #hasRates: boolean;
  /** How much they like to move jobs. */
  readonly #jobMoves: number;
  /** Whether they abort batches in the moment in which a job comes. */
  readonly #aborts: boolean;
  /** Rings are often full and threads delayed for long, so everything depends on wakes. */
  readonly #isCrowded: boolean;
  readonly #jobBytesMax: number;
  readonly #holdUps: number;
  readonly #forgetful: number;
  readonly #tickMs: number;
  readonly #ringBytes: number;
  #firstJobId: number;
  #server!: InProcessServer;
  #model!: Model;
  #counts = new CommandCounts();
  #lastPlace = 0;
  /** Clients that closed with nothing under way, by session, until it is another's. */
  #closed = new Map<number, { acceptor: number; place: number }>();
  #witnesses: EngineWitness[] = [];
  #clients: SimClient[] = [];
  #world!: SimWorld;
  #shards = 0;
  #transits = 0;
  #acceptors = 0;
  #draining = false;
  /** Whether the log was full when an engine asked last. */
  #wasFull = false;
  #startedAtMs = 0;
  #commands = 0;
  readonly #sent = new Set<string>();
  #schedulerSteps = 0;
  #restarts = 0;
  #clientsMade = 0;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#extensions = options.extensions ?? true;
    const random = new SeededRandom(options.seed);
    this.#random = random;
    // No draw, so that all other seeds are the same runs as before.
    this.#isCrowded = options.seed % 5 === 3;
    const hurry = random.pick([0.1, 0.5, 0.9]);
    this.#hurry = this.#isCrowded ? 0.9 : hurry;
    const [puts, reserves] = random.pick<readonly [number, number]>(APPETITES);
    this.#puts = puts;
    this.#reserves = reserves;
    const bigBodies = random.pick([0.02, 0.3]);
    this.#bigBodies = this.#isCrowded ? 0.6 : bigBodies;
    const holdUps = random.pick([0, 0.1, 0.5]);
    this.#holdUps = this.#isCrowded ? Math.max(holdUps, 0.1) : holdUps;
    const hasHugeBodies = random.chance(0.1);
    this.#jobBytesMax = hasHugeBodies ? HUGE_BODY_BYTES : JOB_BYTES_MAX;
    this.#forgetful = random.pick([0, 0, 0.3]);
    this.#ringBytes = hasHugeBodies ? 1 << 16 : random.pick([4096, 4096, 8192]);
    this.#tickMs = random.pick([0, 0.01, 1]);
    this.#firstJobId = random.pick([1, 1, 2 ** 24 - 20, 2 ** 32 - 20]);
    const isLogged = random.chance(0.5) || options.durable === true;
    this.#log = isLogged ? new SimulatedLog(random) : undefined;
    // No draw, so that two seeds of three are the same run as before there were rates.
    this.#hasRates = options.seed % 3 === 0;
    this.#isUsual = options.jobMoves === undefined && options.extensions === undefined;
    const isDurable = options.durable ?? (this.#isUsual && options.seed % 2 === 1);
    this.#policies = this.#extensions && (this.#log === undefined || isDurable) && (options.policies ?? true);
    const jobMoves = options.jobMoves ?? this.#isUsual;
    this.#aborts = this.#extensions && options.seed % 10 === 5;
    this.#jobMoves = jobMoves ? random.pick([2, 10, 60]) : 0;
  }

  get shape(): string {
    const log = this.#log === undefined ? "no log" : `log synced ${this.#log.syncEvery}`;
    return `${this.#shards} shards, ${this.#acceptors} acceptors, ${log}, process ${this.#restarts + 1}`;
  }

  // --- processes ---------------------------------------------------------------------------------

  async begin(): Promise<void> {
    await this.#startProcess("kill");
  }

  /** A new process, after one that ended so: another number of threads, the same log. */
  async #startProcess(end: ProcessEnd): Promise<void> {
    const random = this.#random;
    this.#shards = random.pick([1, 1, 2, 3, 4, 7]);
    const acceptors = random.pick([1, 1, 2, 3]);
    // Two of them in one thread, and one in another.
    this.#acceptors = this.#isCrowded && this.#options.seed % 4 === 0 ? 3 : acceptors;
    this.#draining = false;
    this.#counts = new CommandCounts();
    this.#closed = new Map();
    this.#startedAtMs = random.between(1, 1_000_000);
    const log = await this.#log?.open(this.#shards, this.#startedAtMs);
    const { seed } = this.#options;
    // No draws, so that a seed is the same run apart as before there were hosts.
    const placement = seed % 2 === 0 ? "together" : "apart";
    const threads = seed % 4 === 0 ? Math.max(1, this.#acceptors - 1) : this.#acceptors;
    const isResident = placement === "together" && threads === 1 && seed % 16 < 4;
    const create = this.#options.createServer ?? ((settings) => new InProcessServer(settings));
    const server = create({
      shards: this.#shards,
      acceptors: this.#acceptors,
      random,
      jobBytesMax: this.#jobBytesMax,
      ringBytes: this.#ringBytes,
      holdUps: this.#holdUps,
      pollChance: random.pick([0, 0, 0.5]),
      lateRings: random.pick([0, 0, 0.2]),
      strayRings: random.chance(0.2),
      ownSockets: random.chance(0.5),
      placement,
      threads,
      migrations: this.#options.seed % 8 === 6 ? 0.7 : 0,
      // Three commands a turn, of the connections that were set aside.
      commandWork: this.#options.seed % 4 === 1 ? 4000 : undefined,
      orderedTubesMin: this.#options.seed % 2 === 1 ? 1 : undefined,
      tickMs: this.#tickMs,
      firstJobId: this.#firstJobId,
      startsAtMs: this.#startedAtMs,
      slowLog: random.pick([0, 0.8, 0.95]),
      dueInTurn: this.#options.seed % 10 === 5 ? 0.8 : 0,
      longHoldUps: this.#isCrowded ? 0.98 : 0,
      ...(log === undefined ? {} : { log: { ...log, isResident } }),
    });
    this.#server = server;
    this.#firstJobId = 1;
    this.#options.plant?.(server);
    this.#model = new Model(this.#shards, log?.wallOffsetMs);
    this.#model.workerName = (session) => command.sessionName(session, this.#acceptors);
    this.#log?.restore(server, end);
    this.#restoreModel();
    this.#watchServer();
    this.#clients = [];
    this.#check();
    for (let i = 0; i < 3; i++) this.#connect();
  }

  /** The model is what the log was found to say. */
  #restoreModel(): void {
    const model = this.#model;
    const ledger = this.#log?.ledger;
    for (const [pattern, values] of ledger?.settings ?? []) model.restoreSetting(pattern, values);
    model.endSettings();
    for (const tube of this.#tubesInOrder()) model.tube(tube);
    for (const each of ledger?.found ?? []) {
      if (each.state === "remembered") model.restoreKey(each);
      else model.restore(each, this.#server.nowMs);
    }
    model.endRestore();
  }

  /** Restored tubes come in an order of their own. */
  #tubesInOrder(): string[] {
    const tubes = this.#server.shards.flatMap((core) => [...core.engine.tubes.values()]);
    return tubes.sort((a, b) => a.sequence - b.sequence).map((tube) => tube.name);
  }

  #watchServer(): void {
    const server = this.#server;
    this.#world = {
      nowMs: () => server.nowMs,
      isDraining: () => this.#draining,
      isFull: () => this.#wasFull,
      promises: this.#log?.ledger,
      counts: this.#counts,
      closedAt: (session, acceptor) => {
        const closed = this.#closed.get(session);
        return closed === undefined || closed.acceptor === acceptor ? Number.POSITIVE_INFINITY : closed.place;
      },
      nextPlace: () => ++this.#lastPlace,
      checkSet: (pattern, values) => this.#checkSet(pattern, values),
    };
    this.#wasFull = false;
    for (const records of server.records) {
      const roomForPut = records.roomForPut.bind(records);
      records.roomForPut = () => {
        this.#wasFull = server.isFull;
        return roomForPut();
      };
      const put = records.put.bind(records);
      records.put = (slot) => {
        const done = put(slot);
        if (!done) this.#wasFull = server.isFull;
        return done;
      };
    }
    const askers: Askers = new Map();
    this.#witnesses = server.shards.map(
      (core, shard) => new EngineWitness(core.engine, core, shard, this.#model, this.#sink(), askers),
    );
    for (const witness of this.#witnesses) witness.touched = true;
    server.onDeparted = (socket) => this.#renameClient(socket, undefined);
    server.onLanded = (socket, acceptor) => this.#renameClient(socket, acceptor);
    for (const [acceptor, core] of server.acceptors.entries()) {
      this.#watchClaims(core, acceptor);
      const { slots } = core;
      const vacate = slots.vacate.bind(slots);
      slots.vacate = (slot) => {
        vacate(slot);
        this.#model.forgetMoved(this.#sessionOf(acceptor, slot));
      };
    }
    if (this.#forgetful > 0) for (const core of server.acceptors) this.#forget(core, this.#forgetful);
  }

  /**
   * Whether the process can't go on: the power is gone, or the log has failed, which its main
   * thread finds out soon.
   */
  get #isDoomed(): boolean {
    return this.#server.halted || this.#server.logEnd === "failed";
  }

  async #endProcess(how: ProcessEnd): Promise<void> {
    const log = this.#log!;
    const server = this.#server;
    let end = how;
    if (end === "stop") {
      this.#stopClients();
      server.stop();
      this.#guard(() => server.settle());
      server.stopLog();
      this.#guard(() => server.settle());
      if (server.logEnd !== "closed") {
        assert.ok(this.#isDoomed, "an orderly stop closes the log");
        end = "power";
      }
    }
    this.#say(`the process ends: ${end}`);
    const { failure } = server.storage!;
    const { struck, wasShort } = log.weather;
    // Whoever stops a server whose log finds no room is told that it could not be closed.
    const inVain = how === "stop" && wasShort && failure?.code === "BINLOG_NO_SPACE";
    if (failure !== undefined && !struck && !inVain) throw failure;
    this.#schedulerSteps += server.stepsTaken;
    log.end(end, server.nowMs - this.#startedAtMs, server.nowMs, this.#model);
    this.#restarts++;
    await this.#startProcess(end);
  }

  /** Runs threads; a shard may be stuck for good if the log is gone. */
  #guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      if (!(error instanceof LogIsGone)) throw error;
      this.#server.halt();
    }
  }

  get result(): SimulationResult {
    const schedulerSteps = this.#schedulerSteps + this.#server.stepsTaken;
    const [commands, sent, restarts] = [this.#commands, this.#sent, this.#restarts];
    return { commands, sent, schedulerSteps, restarts, shape: this.shape };
  }

  // --- watching ----------------------------------------------------------------------------------

  #sink(): ConstructorParameters<typeof EngineWitness>[4] {
    const jobOf = (id: number) => this.#model.jobs.get(id)!;
    return {
      put: (session, job) => {
        this.#log?.ledger.checkNew(job);
        this.#clientOf(session).onPut(jobOf(job));
      },
      // A clear-tube may have ended it since, in the same call.
      reserved: (session, job) => this.#clientOf(session).onReserved(this.#model.given.get(job)!),
      reservedBatch: (session, jobs, isPart) =>
        this.#clientOf(session).onReservedBatch(jobs.map(jobOf), isPart),
      touchedAll: (session, shard, held) => this.#clientOf(session).onTouchedAll(shard, held),
      aborted: (session) => this.#clientOf(session).onRefused("ABORTED"),
      refused: (session, reply) => this.#clientOf(session).onRefused(reply),
      byId: (session, shard, name, id, done, settled) =>
        this.#clientOf(session).onById(name, shard, id, done, settled),
      kicked: (session, tube, bound, count) => this.#clientOf(session).onKicked(tube, bound, count),
      kickJob: (_, id, done, settled) =>
        this.#anonymous(
          (each) => each.kind === "kick-job" && each.id === id,
          done ? "KICKED\r\n" : settled ? "NOT_FOUND\r\n" : undefined,
          done,
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
          this.#clients.some((client) => client.onMoved(from, to, isDone)),
          `a job moves from ${from} to ${to} because somebody has said so`,
        ),
      updateRefused: (session, shard, id) => this.#clientOf(session).onUpdateRefused(shard, id),
      putRefused: (session) => this.#clientOf(session).onPutRefused(),
      putDeclined: (session, reply) => this.#clientOf(session).onPutDeclined(reply),
      followed: (shard) => {
        this.#log?.ledger.follow(shard, this.#model.changes, this.#server.nowMs);
        this.#model.changes = [];
      },
      changed: () => {
        for (const client of this.#clients) client.noteReads();
      },
    };
  }

  #anonymous(matches: (each: Command) => boolean, reply: string | undefined, isFinal: boolean): void {
    // Once it is answered on the shard that counts, the other shards that were asked have nothing
    // to tell.
    this.#clients.some((client) => client.onAnonymous(matches, reply, isFinal));
  }

  #clientOf(session: number): SimClient {
    const client = this.#clients.findLast((each) => each.session === session);
    assert.ok(client !== undefined, `session ${session} belongs to a client`);
    return client;
  }

  #sessionOf(acceptor: number, slot: number): number {
    return slot * this.#acceptors + acceptor;
  }

  #watchClaims(core: AcceptorCore, acceptor: number): void {
    const { claims } = core;
    const open = claims.open.bind(claims);
    const claim = claims.claim.bind(claims);
    claims.open = (slot, number) => {
      this.#model.openWait(this.#model.session(this.#sessionOf(acceptor, slot)), number);
      open(slot, number);
    };
    claims.claim = (slot, number) => {
      const expected = this.#model.acceptorClaims(
        this.#model.session(this.#sessionOf(acceptor, slot)),
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
    for (const [shard, settings] of this.#model.settings.entries()) {
      if (!isWide && this.#model.tubeShard(pattern) !== shard) continue;
      const has: command.SettingValueChanges = settings.byPattern.get(pattern) ?? {};
      for (const name of Object.keys(values) as (keyof typeof values)[])
        assert.equal(has[name], values[name], `${name} of ${pattern} on shard ${shard} when it is set`);
    }
    for (const { name, shard, resolved } of this.#model.tubes.values()) {
      const { sources, values: told } = this.#model.settings[shard]!.resolve(name);
      for (const each of Object.keys(values) as (keyof typeof values)[])
        if (sources[each] === pattern)
          assert.equal(resolved.values[each], told[each], `${each} of tube ${name} when ${pattern} is set`);
    }
  }

  /** At rest all shards know the same patterns, and all tubes have what is set for them. */
  #checkSettings(): void {
    const wide = this.#model.settings.map(({ byPattern }) =>
      [...byPattern.entries()].filter(([pattern]) => pattern.endsWith("*")).sort(),
    );
    for (const each of wide) assert.deepEqual(each, wide[0], "patterns that all shards know");
    for (const { name, shard, resolved } of this.#model.tubes.values())
      assert.deepEqual(resolved, this.#model.settings[shard]!.resolve(name), `what is set for ${name}`);
  }

  /** A directory may have forgotten any job: then all shards are asked. */
  #forget(core: AcceptorCore, probability: number): void {
    const find = core.places.shardOfJob.bind(core.places);
    core.places.shardOfJob = (id) => (this.#random.chance(probability) ? UNKNOWN_SHARD : find(id));
  }

  // --- steps -------------------------------------------------------------------------------------

  async step(step: number): Promise<void> {
    const random = this.#random;
    random.beginStep(step);
    if (this.#isDoomed && (this.#server.halted || random.chance(0.3))) {
      // After a failed sync the contents of the disk are unknown.
      await this.#endProcess("power");
      return;
    }
    const hasLog = this.#log !== undefined;
    const act = random.weighted({
      ...{ send: 10, run: 10, settle: 2, time: 2, connect: 1, leave: 0.5, vanish: 0.5, read: 2 },
      drain: 0.05,
      abort: this.#aborts ? 1 : 0,
      room: hasLog ? 0.2 : 0,
      end: hasLog ? 0.4 : 0,
    });
    if (act === "send") this.#send();
    else if (act === "run") this.#run(random.between(1, 25));
    else if (act === "settle") this.#settle();
    else if (act === "time") this.#passTime();
    else if (act === "connect") this.#connect();
    else if (act === "leave") this.#leave();
    else if (act === "vanish") this.#vanish();
    else if (act === "drain") this.#drain();
    else if (act === "abort") this.#abortInTime();
    else if (act === "room") this.#say(this.#log!.turnCapacity());
    else if (act === "end") await this.#endInTheMiddle();
    else this.#read();
    this.#check();
  }

  /** Ends the process while clients have something under way, and the log too. */
  async #endInTheMiddle(): Promise<void> {
    for (let i = this.#random.between(0, 4); i > 0; i--) this.#send();
    this.#run(this.#random.between(0, 40));
    if (this.#server.halted) return;
    await this.#endProcess(this.#random.pick(["power", "power", "power", "kill", "stop"]));
  }

  /**
   * A client that waits for a batch says more just before a delayed job becomes ready, in the turn
   * of its shard even.
   */
  #abortInTime(): void {
    const client = this.#random.pick(
      this.#clients.filter((each) => each.canSend && each.pendingCount === 0 && !each.socket.isPaused),
    );
    if (client === undefined) return;
    const batch = { jobsMax: 2, bytesMax: Number.POSITIVE_INFINITY, tubes: false, mayAbort: true };
    // Rarely watched by others, and on one shard.
    const tube = WIDE_TUBES.at(-1)!;
    this.#sendOne(client, this.#watch(client, tube));
    for (const other of client.watched.filter((each) => each !== tube))
      this.#sendOne(client, this.#ignoreTube(client, other));
    this.#sendOne(client, command.putInTube(tube, 0, 500, 3, this.#body()));
    this.#sendOne(client, command.reserveBatch(client.watched, undefined, batch));
    this.#settle();
    const toDueMs = this.#server.nextDueAtMs - this.#server.nowMs;
    if (this.#isDoomed || !client.canSend || !Number.isFinite(toDueMs)) return;
    this.#server.nowMs += Math.max(0, toDueMs - 0.9);
    this.#sendOne(client, command.fixed("list-tube-used", `USING ${client.used}\r\n`));
    this.#run(30);
  }

  #drain(): void {
    this.#say("SIGUSR1: the server drains");
    this.#draining = true;
    this.#server.drain();
  }

  #say(what: string): void {
    this.lastActs.push(what);
    if (this.lastActs.length > 12) this.lastActs.shift();
  }

  #check(): void {
    // A shard that is stuck in a command has done half of it.
    if (this.#server.halted) return;
    for (const witness of this.#witnesses) witness.check();
    checkRings(this.#server.topology);
  }

  #run(steps: number): void {
    this.#guard(() => {
      for (let i = 0; i < steps && this.#server.step(); i++) this.#check();
    });
  }

  #settle(): void {
    this.#say("settle");
    this.#guard(() => this.#server.settle());
    if (this.#isDoomed) return;
    for (const client of this.#clients) client.forgetMoves();
    this.#check();
    this.#log?.ledger.checkRest(this.#server.nowMs);
    if (this.#clients.every((client) => client.socket.readsAtOnce)) this.#checkRest();
  }

  #passTime(): void {
    const random = this.#random;
    const { nowMs, nextDueAtMs } = this.#server;
    const toDueMs = Number.isFinite(nextDueAtMs) ? Math.max(0, nextDueAtMs - nowMs) : 0;
    const ms = random.pick([
      random.next(),
      random.between(1, 300),
      1000 * random.between(1, 3),
      toDueMs,
      Math.max(0, toDueMs - 0.0005),
      toDueMs + random.next(),
    ]);
    this.#server.nowMs += ms;
    this.#say(`${ms} ms pass`);
  }

  /** A connection has left its acceptor, or has come to one: its session has another number. */
  #renameClient(socket: FakeSocket, acceptor: number | undefined): void {
    const client = this.#clients.find((each) => each.socket === socket);
    assert.ok(client !== undefined, "only clients move");
    const now =
      acceptor === undefined ? IN_TRANSIT + ++this.#transits : this.#sessionOf(acceptor, socket.slot);
    // Whoever had the slot before is over.
    for (const other of this.#clients)
      if (other.session === now) other.session = IN_TRANSIT + ++this.#transits;
    if (acceptor === undefined) this.#model.keepMoved(client.session);
    this.#model.rename(client.session, now);
    this.#closed.delete(now);
    const closed = this.#closed.get(client.session);
    this.#closed.delete(client.session);
    if (closed !== undefined) this.#closed.set(now, closed);
    client.session = now;
    if (acceptor !== undefined) client.acceptor = acceptor;
    this.#say(`client ${client.name} is ${acceptor === undefined ? "on the way" : `session ${now}`}`);
  }

  #connect(): void {
    if (this.#clients.filter((client) => !client.gone && !client.over).length >= CLIENTS_MAX) return;
    const acceptor = this.#random.between(0, this.#acceptors - 1);
    const socket = this.#server.connect(acceptor);
    const session = this.#sessionOf(acceptor, socket.slot);
    const name = `${++this.#clientsMade}`;
    const client = new SimClient(name, socket, { session, acceptor }, this.#model, this.#world);
    socket.onEndVisible = () => this.#checkEnd(client);
    this.#clients.push(client);
    this.#closed.delete(session);
    this.#say(`client ${name} connects as session ${session}`);
    if (this.#random.chance(0.3)) return;
    for (let i = this.#random.between(1, 3); i > 0; i--) client.send(this.#watch(client, this.#tube()));
  }

  #leave(): void {
    const client = this.#random.pick(this.#clients.filter((each) => !each.gone && !each.over));
    if (client === undefined) return;
    const how = this.#random.pick(["half-close", "half-close", "close", "reset"]);
    this.#say(`client ${client.name}: ${how}`);
    if (how === "reset") {
      this.#reset(client);
    } else if (how === "half-close") {
      // A body that never becomes whole.
      if (client.canSend && this.#random.chance(0.2)) this.#sendHalfAPut(client);
      client.socket.halfClose();
      client.halfClosed = true;
    } else if (
      this.#isUsual &&
      client.canSend &&
      client.pendingCount === 0 &&
      Number(client.name) % 3 === 0
    ) {
      // Drawn among the commands it comes too seldom.
      this.#sendOne(client, command.quit());
    } else {
      this.#close(client);
    }
  }

  #close(client: SimClient): void {
    client.gone = true;
    const { session, acceptor } = client;
    if (client.pendingCount === 0 && !client.socket.isPaused)
      this.#closed.set(session, { acceptor, place: ++this.#lastPlace });
    client.socket.close();
  }

  /** A client that holds a job closes, with nothing under way, and another one wants that job. */
  #vanish(): void {
    const holders = new Set([...this.#model.jobs.values()].map((job) => job.holder?.index));
    const client = this.#random.pick(
      this.#clients.filter((each) => each.canSend && each.pendingCount === 0 && holders.has(each.session)),
    );
    if (client === undefined) return;
    this.#say(`client ${client.name}: close`);
    this.#close(client);
    this.#askForJobsOf(client);
  }

  /** A client of another acceptor asks at once for a job that a closing client held. */
  #askForJobsOf(gone: SimClient): void {
    const job = [...this.#model.jobs.values()].find((each) => each.holder?.index === gone.session);
    const others = this.#clients.filter(
      (each) => each.canSend && each.pendingCount === 0 && each.acceptor !== gone.acceptor,
    );
    const asker = this.#random.pick(others);
    if (job === undefined || asker === undefined) return;
    for (const next of [this.#watch(asker, job.tube.name), command.reserve(asker.watched, 0)]) {
      this.#say(`client ${asker.name}: ${next.text}`);
      asker.send(next);
    }
  }

  #sendHalfAPut(client: SimClient): void {
    client.saidMore = true;
    client.socket.write(Buffer.from("put 0 0 1 900\r\nabc"));
    this.#counts.sent("put");
  }

  /** The connection breaks, for half of the clients at the server's side first. */
  #reset(client: SimClient): void {
    client.gone = true;
    if (Number(client.name) % 2 === 0) client.socket.reset();
    else client.socket.fail();
  }

  /**
   * Whoever sees the end of a connection may count on its effects: its jobs, waits and tubes are
   * back, it is not counted.
   */
  #checkEnd(client: SimClient): void {
    const traces = this.#model.traces(this.#model.session(client.session));
    assert.deepEqual(
      traces,
      [],
      `what is left of client ${client.name}, who has seen the end of its connection`,
    );
    const counted = this.#counted(Counter.Connections);
    const sockets = this.#server.everySocket;
    const open = sockets.flat().filter((socket) => !socket.endVisible && !socket.isForgotten).length;
    assert.ok(counted <= open, `${counted} connections are counted, and only ${open} are open`);
  }

  #read(): void {
    const client = this.#random.pick(this.#clients.filter((each) => !each.gone));
    if (client === undefined) return;
    const { socket } = client;
    if (this.#random.chance(0.3)) socket.readsAtOnce = false;
    else if (this.#random.chance(0.5)) socket.readAll();
    else socket.read(this.#random.between(1, 3000));
    socket.takeReceived();
  }

  // --- commands ----------------------------------------------------------------------------------

  #send(): void {
    const random = this.#random;
    const clients = this.#clients.filter((client) => client.canSend && client.pendingCount < PENDING_MAX);
    const client = random.pick(clients);
    if (client === undefined) return;
    if (random.chance(this.#isCrowded ? 0.3 : 0.05)) {
      this.#sendPeeks(client);
      if (client.pendingCount > 0 && this.#commands % 3 === 0) this.#sendMany(client);
    }
    const count = random.chance(this.#hurry) ? random.between(2, 8) : 1;
    for (let i = 0; i < count && client.canSend; i++) {
      const next = this.#draw(client);
      if (next === undefined) continue;
      this.#sendOne(client, next);
    }
  }

  #sendOne(client: SimClient, next: Command): void {
    this.#say(`client ${client.name}: ${next.text}`);
    this.#commands++;
    const name = commandIn(next.text);
    if (name !== undefined) this.#sent.add(name);
    client.send(next);
  }

  /** Asks for a body over and over, so that the answers fill a ring. */
  #sendPeeks(client: SimClient): void {
    const large = [...this.#model.jobs.values()].filter(
      ({ body }) => body.length > 800 && body.length < 1000,
    );
    const job = this.#random.pick(large);
    for (let i = 0; job !== undefined && i < 6; i++) client.send(command.peek(job.id));
  }

  /** Asks for more behind what it waits for than small buffers take. */
  #sendMany(client: SimClient): void {
    const count = 41 + (this.#commands % 60);
    this.#say(`client ${client.name}: ${count} times list-tube-used`);
    for (let i = 0; i < count; i++) client.send(command.fixed("list-tube-used", `USING ${client.used}\r\n`));
  }

  #tube(): string {
    return this.#random.pick(TUBES)!;
  }

  #body(): string {
    const random = this.#random;
    const isBig = random.chance(this.#bigBodies);
    const bytes = isBig
      ? random.pick([900, 975, 976, 977, 1000, 3000, this.#jobBytesMax])
      : random.between(0, 20);
    return String.fromCharCode(random.between(97, 122)).repeat(bytes);
  }

  /** The id of some job, most often one that is there. */
  #id(client: SimClient): number {
    const random = this.#random;
    const jobs = [...this.#model.jobs.values()];
    const held = jobs.filter((job) => job.holder?.index === client.session);
    if (held.length > 0 && random.chance(0.6)) return random.pick(held)!.id;
    const job = random.chance(0.95) ? random.pick(jobs) : undefined;
    return job?.id ?? random.pick([0, 1, 7, 999_999, 2 ** 33]);
  }

  /**
   * A command that beanstalkd does not have. A run without them draws nothing for them, so that
   * they don't change it.
   */
  #drawExtension(client: SimClient): Command | undefined {
    const random = this.#random;
    const pri = random.pick([0, 1, 1, 5, 1024, 4294967295]);
    const kind = random.weighted({
      putInTube: this.#puts,
      extensions: 0.5,
      wrongOption: 1,
      listJobs: 2,
      clearTube: 1,
      updateJob: 4,
      inspect: 1,
      ...{ reserveBatch: this.#reserves, deleteBatch: 3, touchAll: 2 },
      setTube: this.#policies ? 5 : 0,
      moveJobs: this.#jobMoves,
      listAll: this.#jobMoves > 0 ? 2 : 0,
    });
    switch (kind) {
      case "putInTube":
        return command.putInTube(
          this.#tube(),
          pri,
          random.pick(DELAYS_MS),
          random.between(1, 4),
          this.#body(),
          this.#policies ? this.#putOptions() : undefined,
        );
      case "setTube":
        return this.#setTube();
      case "reserveBatch":
        return command.reserveBatch(client.watched, random.pick([undefined, 0, 0.5, 1, 2]), {
          jobsMax: random.pick([1, 2, 3, 10, 60]),
          bytesMax: random.pick([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 5, 30, 2000]),
          tubes: random.chance(0.3),
          mayAbort: random.chance(0.5),
        });
      case "deleteBatch":
        return command.deleteBatch(
          Array.from({ length: random.pick([1, 2, 2, 3, 5, 5, 120]) }, () => this.#id(client)),
        );
      case "touchAll":
        return command.touchAll();
      case "extensions":
        return command.gather("extensions");
      case "updateJob":
        return this.#updateJob(client, pri);
      case "inspect":
        return random.chance(0.6)
          ? command.inspectJob(this.#id(client), this.#acceptors)
          : command.inspectTube(this.#tube());
      case "listJobs":
        return command.listJobs(
          this.#choice(),
          random.pick([0, 0, 3, this.#id(client)]),
          random.pick([0, 3, 20]),
        );
      case "listAll":
        return command.listAllJobs(
          this.#choice(),
          random.pick([0, 0, 3, this.#id(client)]),
          random.pick([0, 3]),
        );
      case "moveJobs":
        return this.#moveJobs();
      case "clearTube": {
        const jobs = this.#choice();
        return this.#isFree((each) => each.kind === "clear" && isSameChoice(each.jobs, jobs))
          ? command.clearTube(jobs)
          : undefined;
      }
      default:
        return command.wrongOption(this.#tube(), this.#body());
    }
  }

  /** What a put-in-tube says of its job. */
  #putOptions(): PutOptions {
    const random = this.#random;
    const key = random.pick(["", "", "k", "l"]);
    return {
      key,
      keyForMs: key === "" ? 0 : random.pick([0, 0, 700, 3000]),
      untilReserve: key !== "" && random.chance(0.4),
      ttlMs: random.pick([0, 0, 0, 500, 1500, 3000]),
      group: random.pick(["", "", "g", "h", "i"]),
      weight: random.pick([1, 1, 2, 3]),
    };
  }

  /** Some setting of a tube, of some or of all; what is set is taken away soon. */
  #setTube(): Command | undefined {
    const random = this.#random;
    const pattern = random.pick([this.#tube(), this.#tube(), "wide-*", "*"]);
    if (!this.#isFree((each) => each.kind === "set" && each.pattern === pattern)) return undefined;
    const drawn: command.SettingValueChanges = {
      maxAttempts: random.pick([undefined, 1, 2]),
      backoffMs: random.pick([undefined, undefined, 700]),
      ttlMs: random.pick([undefined, undefined, 2000]),
      expireBuries: random.pick([undefined, true, false]),
      maxJobs: random.pick([undefined, undefined, 2, 5]),
      maxReserved: random.pick([undefined, undefined, 1, 2]),
      groupMaxReserved: random.pick([undefined, 1, 2]),
      ...(this.#hasRates ? this.#rateSettings() : {}),
      // Without moves of jobs nothing is drawn for them.
      ...(this.#jobMoves > 0 ? this.#farSettings() : {}),
    };
    const names = Object.keys(drawn) as (keyof typeof drawn)[];
    const some = names.filter(() => random.chance(0.35));
    const values = some.length === 0 ? names : some;
    return command.setTube(pattern, Object.fromEntries(values.map((name) => [name, drawn[name]])));
  }

  #rateSettings(): command.SettingValueChanges {
    const random = this.#random;
    return { rate: random.pick([undefined, undefined, ...RATES]), burst: random.pick([undefined, 1, 3]) };
  }

  #farSettings(): command.SettingValueChanges {
    const random = this.#random;
    return {
      deadLetter: random.pick([undefined, this.#tube(), this.#tube()]),
      maxBytes: random.pick([undefined, undefined, 30, 2000]),
    };
  }

  #updateJob(client: SimClient, pri: number): Command {
    const random = this.#random;
    const changes = [
      ` pri=${pri}`,
      ` delay=${random.pick(DELAYS_MS) / 1000}`,
      ` ttr=${random.between(1, 4)}`,
      ...(this.#policies ? [` ttl=${random.pick([0, 0.5, 2])}`] : []),
    ];
    const made = changes.filter(() => random.chance(0.5));
    if (this.#jobMoves > 0 && random.chance(0.4)) made.push(` tube=${this.#tube()}`);
    return command.byId("update-job", this.#id(client), made.join("") || changes[0]);
  }

  #moveJobs(): Command | undefined {
    const random = this.#random;
    const { states, ...choice } = this.#choice();
    const movable = states.filter((state) => state !== "reserved");
    const some = random.chance(0.8) ? random.pick([...this.#model.jobs.values()]) : undefined;
    const tube = some?.tube.name ?? choice.tube;
    const target = this.#policies && random.chance(0.1) ? "*" : this.#tube();
    const jobs = {
      ...choice,
      tube,
      states: movable.length === 0 ? (["ready", "delayed"] as const) : movable,
    };
    // Engines do not tell whose move it is.
    const isFree = this.#isFree(
      (each) =>
        each.kind === "move" &&
        each.tube === tube &&
        [target, each.target].some((to) => to === "*" || (to === each.target && to === target)),
    );
    return isFree ? command.moveJobs(jobs, target, random.chance(0.2)) : undefined;
  }

  #choice(): JobChoice {
    const random = this.#random;
    const states = STATES.filter(() => random.chance(0.6));
    return {
      tube: this.#tube(),
      states: states.length === 0 ? ["ready"] : states,
      contains: random.chance(0.7) ? undefined : random.pick(["a", "kk", "z", "e"]),
      group: this.#policies && random.chance(0.3) ? random.pick(["g", "h"]) : undefined,
      limit: random.chance(0.5) ? undefined : random.between(1, 4),
    };
  }

  #draw(client: SimClient): Command | undefined {
    const random = this.#random;
    const share = this.#policies ? POLICY_SHARE : EXTENSION_SHARE;
    if (this.#extensions && random.chance(share)) return this.#drawExtension(client);
    const pri = random.pick([0, 1, 1, 5, 1024, 4294967295]);
    const delaySeconds = random.pick([0, 0, 0, 1, 2]);
    const kind = random.weighted({
      put: this.#puts,
      reserve: this.#reserves,
      byId: 12,
      read: 4,
      watch: 4,
      ignore: 2,
      use: 3,
      kick: 2,
      kickJob: 2,
      pause: 1,
      gather: 1,
      fixed: 2,
      quit: 0.1,
    });
    switch (kind) {
      case "put":
        return command.put(client.used, pri, delaySeconds, random.between(1, 4), this.#body());
      case "reserve":
        return command.reserve(client.watched, random.pick([undefined, undefined, 0, 1, 1, 2]));
      case "byId":
        return this.#byId(client, pri, delaySeconds);
      case "read":
        return this.#drawRead(client);
      case "watch":
        return random.chance(0.03) ? this.#watchMany(client) : this.#watch(client, this.#tube());
      case "ignore":
        return this.#ignore(client);
      case "use":
        client.used = this.#tube();
        return command.fixed(`use ${client.used}`, `USING ${client.used}\r\n`);
      case "kick":
        return command.kick(client.used, random.between(0, 3));
      case "kickJob": {
        const id = this.#id(client);
        return this.#isFree((each) => each.kind === "kick-job" && each.id === id)
          ? command.kickJob(id)
          : undefined;
      }
      case "pause": {
        const [tube, seconds] = [this.#tube(), random.between(0, 2)];
        const matches = (each: Command): boolean =>
          each.kind === "pause" && each.tube === tube && each.seconds === seconds;
        return this.#isFree(matches) ? command.pause(tube, seconds) : undefined;
      }
      case "gather":
        return command.gather(random.pick(["stats", "list-tubes"]));
      case "quit":
        return client.pendingCount === 0 ? command.quit() : undefined;
      default:
        return random.pick([
          command.fixed("nonsense", "UNKNOWN_COMMAND\r\n"),
          command.fixed("peek x", "BAD_FORMAT\r\n"),
          command.fixed("x".repeat(random.between(223, 500)), "BAD_FORMAT\r\n"),
          command.badPut(this.#body()),
          command.tooBigPut(this.#jobBytesMax + random.between(1, 100)),
          command.fixed("list-tube-used", `USING ${client.used}\r\n`),
          listWatched(client),
        ]);
    }
  }

  /**
   * Whether no client has such a command in flight: engines don't report whose kick-job, pause-tube
   * or clear-tube it is.
   */
  #isFree(matches: (each: Command) => boolean): boolean {
    return !this.#clients.some((client) => client.mayBeAsked(matches));
  }

  #byId(client: SimClient, pri: number, delaySeconds: number): Command {
    const name: ByIdCommand = this.#random.weighted({
      delete: 4,
      release: 4,
      bury: 2,
      touch: 2,
      "reserve-job": 2,
    });
    // Without the commands of our own, nothing more is drawn.
    const reason = this.#extensions
      ? this.#random.pick(["", "", " reason=no%20disk", ` reason=${"x%20y".repeat(99)}`])
      : "";
    const numbers = name === "release" ? ` ${pri} ${delaySeconds}` : ` ${pri}`;
    const rest = name === "release" || name === "bury" ? `${numbers}${reason}` : "";
    return command.byId(name, this.#id(client), rest);
  }

  #drawRead(client: SimClient): Command {
    const random = this.#random;
    switch (random.between(0, 3)) {
      case 0:
        return command.peek(this.#id(client));
      case 1:
        return command.peekOf(client.used, random.pick(["ready", "delayed", "buried"]));
      case 2:
        return command.statsJob(this.#id(client));
      default:
        return command.statsTube(this.#tube());
    }
  }

  #watch(client: SimClient, tube: string): Command {
    if (!client.watched.includes(tube)) client.watched.push(tube);
    return command.fixed(`watch ${tube}`, `WATCHING ${client.watched.length}\r\n`);
  }

  /** Enough tubes that the client is a wide waiter. */
  #watchMany(client: SimClient): Command | undefined {
    for (const tube of WIDE_TUBES.slice(1)) {
      const each = this.#watch(client, tube);
      this.#say(`client ${client.name}: ${each.text}`);
      client.send(each);
    }
    return this.#watch(client, WIDE_TUBES[0]!);
  }

  #ignore(client: SimClient): Command {
    return this.#ignoreTube(
      client,
      this.#random.chance(0.7) ? this.#random.pick(client.watched)! : this.#tube(),
    );
  }

  #ignoreTube(client: SimClient, tube: string): Command {
    const at = client.watched.indexOf(tube);
    if (at >= 0 && client.watched.length === 1) return command.fixed(`ignore ${tube}`, "NOT_IGNORED\r\n");
    if (at >= 0) {
      const last = client.watched.pop()!;
      if (last !== tube) client.watched[at] = last;
    }
    return command.fixed(`ignore ${tube}`, `WATCHING ${client.watched.length}\r\n`);
  }

  // --- rest --------------------------------------------------------------------------------------

  #checkRest(): void {
    this.#checkSettings();
    for (const { engine } of this.#server.shards) checkArenaAtRest(engine);
    for (const { id, policy } of this.#model.jobs.values())
      assert.ok(!policy.leaves, `job ${id}, which has died, has left for its dead-letter tube`);
    for (const client of this.#clients) client.checkRest(this.#shards);
  }

  /**
   * Everybody reads, time passes, everybody leaves: what is left must be exactly the jobs that the
   * model has.
   */
  async finish(): Promise<void> {
    this.#random.beginStep(-1);
    if (this.#isDoomed) await this.#endProcess("power");
    this.#say("the end");
    this.#calmDown();
    this.#server.tickMs = 0;
    // Totals are compared with the model's behind the reply: no time may pass meanwhile.
    this.#server.dueInTurn = 0;
    for (const client of this.#clients) if (!client.gone) client.socket.readAll();
    this.#server.settle();
    this.#check();
    this.#checkRest();
    this.#checkTotals();
    if (this.#draining) this.#checkDrained();
    for (let i = 0; i < 3; i++) {
      this.#server.advance(2000);
      this.#check();
      this.#log?.ledger.checkRest(this.#server.nowMs);
      this.#checkRest();
    }
    assert.ok(!this.#server.isFull, "puts are taken again when the disk has room");
    if (this.#random.chance(0.7)) this.#halfCloseAll();
    else this.#stopServer();
    this.#server.settle();
    for (const client of this.#clients) if (client.socket.isPaused && !client.over) this.#reset(client);
    this.#server.settle();
    this.#check();
    this.#checkRest();
    for (const job of this.#model.jobs.values())
      assert.notEqual(job.state, "reserved", `job ${job.id} is unreserved`);
    this.#checkNobodyCounted();
    this.#deleteAll();
    if (this.#log === undefined) return;
    await this.#endProcess("stop");
    assert.equal(this.#model.jobs.size, 0, "what was deleted stays deleted");
  }

  /** All have left. */
  #checkNobodyCounted(): void {
    const gauges = [Counter.Connections, Counter.Producers, Counter.Workers];
    const counted = gauges.map((each) => this.#counted(each));
    assert.deepEqual(counted, [0, 0, 0], "connections, producers and workers when all have left");
  }

  /** A counter of all acceptors together. */
  #counted(counter: number): number {
    return this.#server.acceptors.reduce((sum, { counters }) => sum + counters[counter]!, 0);
  }

  /** The disk has room, and nothing happens to it any more. */
  #calmDown(): void {
    if (this.#log === undefined) return;
    this.#log.weather.end();
    this.#log.disk.capacityBytes = Number.POSITIVE_INFINITY;
  }

  #halfCloseAll(): void {
    for (const client of this.#clients) {
      if (client.gone || client.over) continue;
      client.socket.halfClose();
      client.halfClosed = true;
    }
  }

  /** The server closes all connections in order, also in the middle of a pipeline. */
  #stopServer(): void {
    for (let i = 0; i < 5; i++) this.#send();
    for (let i = this.#random.between(0, 20); i > 0; i--) this.#server.step();
    this.#stopClients();
    this.#server.stop();
  }

  #stopClients(): void {
    for (const client of this.#clients) client.stopped = true;
  }

  /** A server that drains says so, and takes no job. */
  #checkDrained(): void {
    const socket = this.#server.connect(0);
    socket.write(Buffer.from("put 0 0 1 1\r\nx\r\n"));
    this.#server.settle();
    assert.equal(socket.takeReceived().toString("latin1"), "DRAINING\r\n", "a put while the server drains");
    socket.halfClose();
    this.#server.settle();
  }

  /** The lists and sums of all shards, asked for while nothing happens. */
  #checkTotals(): void {
    const socket = this.#server.connect(0);
    const ask = (text: string): string => {
      socket.takeReceived();
      this.#counts.sent(text);
      socket.write(Buffer.from(`${text}\r\n`));
      this.#server.settle();
      return socket.takeReceived().toString("latin1");
    };
    const jobs = [...this.#model.jobs.values()];
    const count = (state: string): number => jobs.filter((job) => job.state === state).length;
    const rows = new Map(
      ask("stats")
        .split("\n")
        .map((row) => row.split(": ") as [string, string]),
    );
    const waiting = new Set(
      this.#model.waits
        .filter(({ session, number }) => number === undefined || number === session.openWait)
        .map((wait) => wait.session),
    );
    const open = this.#clients.filter((client) => !client.socket.isClosed).length;
    const expected: Record<string, number | boolean> = {
      draining: this.#draining,
      "current-jobs-ready": count("ready"),
      "current-jobs-reserved": count("reserved"),
      "current-jobs-delayed": count("delayed"),
      "current-jobs-buried": count("buried"),
      "total-jobs": this.#model.totalJobs,
      "job-timeouts": this.#model.jobTimeouts,
      "current-tubes": this.#model.tubes.size,
      "current-waiting": waiting.size,
      "current-connections": open + 1,
    };
    for (const [key, value] of Object.entries(expected)) assert.equal(rows.get(key), `${value}`, key);
    this.#counts.check(rows);
    const tubes = ask("list-tubes").split("---\n")[1];
    const names = [...this.#model.tubes.keys()].map((name) => `- ${name}\n`).join("");
    assert.equal(tubes, `${names}\r\n`, "list-tubes, in the order of creation");
    socket.halfClose();
    this.#server.settle();
  }

  #deleteAll(): void {
    const client = this.#server.connect(0);
    const session = this.#sessionOf(0, client.slot);
    const last = new SimClient("last", client, { session, acceptor: 0 }, this.#model, this.#world);
    this.#clients.push(last);
    for (const id of [...this.#model.jobs.keys()]) last.send(command.byId("delete", id));
    this.#server.settle();
    this.#check();
    this.#checkRest();
    assert.equal(this.#model.jobs.size, 0, "all jobs can be deleted");
  }
}

function listWatched(client: SimClient): Command {
  const text = `---\n${client.watched.map((tube) => `- ${tube}\n`).join("")}`;
  return command.fixed("list-tubes-watched", `OK ${text.length}\r\n${text}\r\n`);
}
