// Runs the whole server with random clients on a random schedule from one seed, and checks every
// step and every reply.
//
// The seed determines which thread goes on, how long a thread is held up, how much a client sends,
// reads or withholds, when it vanishes, how far time jumps, and the size of the server. The same
// seed gives the same run.

import assert from "node:assert/strict";
import { type BatchRow, WAITS_UNTIL_MS } from "../../src/engine/state/batch-table.ts";
import * as command from "./client/command.ts";
import { CommandCounts } from "./client/command-counts.ts";
import { sessionName } from "./client/model-replies.ts";
import { ClientActs } from "./client-acts.ts";
import { CommandDraws } from "./command-draws.ts";
import { ExtensionDraws, SCHEDULES } from "./extension-draws.ts";
import type { Fault } from "./faults.ts";
import type { ProcessEnd } from "./model/durability-ledger.ts";
import { Model } from "./model/model.ts";
import type { KnownBatch } from "./model/model-types.ts";
import { ProcessWatch } from "./process-watch.ts";
import { RestChecks } from "./rest-checks.ts";
import { InProcessServer } from "./server/in-process-server.ts";
import { type SimulationOptions, SimulationState, WIDE_TUBES } from "./simulation-state.ts";

interface SimulationResult {
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
    await simulation.startProcess("kill");
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

class Simulation extends SimulationState {
  readonly extensionDraws: ExtensionDraws = new ExtensionDraws(this);
  readonly draws: CommandDraws = new CommandDraws(this);
  readonly acts: ClientActs = new ClientActs(this);
  readonly watching: ProcessWatch = new ProcessWatch(this);
  readonly rests: RestChecks = new RestChecks(this);

  /** Starts a process after one that ended like this: other numbers of threads, the same log. */
  async startProcess(end: ProcessEnd): Promise<void> {
    const random = this.random;
    this.shards = random.pick([1, 1, 2, 3, 4, 7]);
    const acceptors = random.pick([1, 1, 2, 3]);
    // Two of them in one thread, and one in another.
    this.acceptors = this.isCrowded && this.options.seed % 4 === 0 ? 3 : acceptors;
    this.draining = false;
    this.counts = new CommandCounts();
    this.closed = new Map();
    this.startedAtMs = random.between(1, 1_000_000);
    const log = await this.log?.open(this.shards, this.startedAtMs);
    const { seed } = this.options;
    // No draws, so that a seed is the same run apart as before there were hosts.
    const placement = seed % 2 === 0 ? "together" : "apart";
    const threads = seed % 4 === 0 ? Math.max(1, this.acceptors - 1) : this.acceptors;
    const isResident = placement === "together" && threads === 1 && seed % 16 < 4;
    const create = this.options.createServer ?? ((settings) => new InProcessServer(settings));
    const server = create({
      shards: this.shards,
      acceptors: this.acceptors,
      random,
      jobBytesMax: this.jobBytesMax,
      ringBytes: this.ringBytes,
      holdUps: this.holdUps,
      pollChance: random.pick([0, 0, 0.5]),
      lateRings: random.pick([0, 0, 0.2]),
      strayRings: random.chance(0.2),
      ownSockets: random.chance(0.5),
      placement,
      threads,
      migrations: this.options.seed % 8 === 6 ? 0.7 : 0,
      // Three commands a turn, of the connections that were set aside.
      commandWork: this.options.seed % 4 === 1 ? 4000 : undefined,
      orderedTubesMin: this.options.seed % 2 === 1 ? 1 : undefined,
      tickMs: this.tickMs,
      firstJobId: this.firstJobId,
      startsAtMs: this.startedAtMs,
      slowLog: random.pick([0, 0.8, 0.95]),
      dueInTurn: this.options.seed % 10 === 5 ? 0.8 : 0,
      longHoldUps: this.isCrowded ? 0.98 : 0,
      ...(log === undefined ? {} : { log: { ...log, isResident } }),
    });
    this.server = server;
    this.firstJobId = 1;
    this.options.plant?.(server);
    this.model = new Model(this.shards, server.logClock?.offsetMs);
    this.model.workerName = (session) =>
      this.clients.findLast((each) => each.session === session)?.workerName ??
      sessionName(session, this.acceptors);
    this.model.hasLog = log !== undefined;
    this.log?.restore(server, end, this.model);
    this.#restoreModel();
    this.watching.watchServer();
    this.clients = [];
    this.check();
    for (let i = 0; i < 3; i++) this.acts.connect();
  }

  /** Restores the model from the contents of the log. */
  #restoreModel(): void {
    const model = this.model;
    const ledger = this.log?.ledger;
    this.#restoreBatches();
    this.#forgetLostTicks();
    for (const [pattern, values] of ledger?.settings ?? []) model.restart.restoreSetting(pattern, values);
    model.restart.endSettings();
    for (const tube of this.#tubesInOrder()) model.registry.tube(tube);
    const { nowMs } = this.server;
    for (const each of ledger?.found ?? []) {
      const started = { nowMs, putAtMs: this.log!.putAtMs.get(each.id)!, logOffsetMs: model.logOffsetMs };
      if (each.state === "remembered") model.restart.restoreKey(each, started);
      else model.restart.restore(each, started);
    }
    model.restart.endRestore();
    ledger?.noteStart(model.log.kept);
  }

  /** Ticks whose jobs have gone with the process come again, unless their schedule is past them. */
  #forgetLostTicks(): void {
    const known = new Set(this.log?.ledger.knownIds);
    for (const [key, id] of this.ticks) if (!known.has(id)) this.ticks.delete(key);
    if (this.log !== undefined) this.#forgetTicksAfter(this.log.wallClock.wallMs);
  }

  /** Ticks come again if the wall clock goes back to before them. */
  #forgetTicksAfter(wallMs: number): void {
    for (const key of this.ticks.keys())
      if (Date.parse(key.slice(key.lastIndexOf("@") + 1)) > wallMs) this.ticks.delete(key);
  }

  #stepClock(): void {
    const { wallClock } = this.log!;
    this.say(wallClock.step(this.server.nowMs));
    const { hasGoneBack } = wallClock;
    if (hasGoneBack) this.#forgetTicksAfter(wallClock.seenMs(this.server.nowMs));
  }

  /** Takes the batches of the log, and how many members of each have gone. */
  #restoreBatches(): void {
    for (const [shard, { engine }] of this.server.shards.entries())
      for (const batch of engine.batches.all) {
        const { number, done, failed, formerDone, formerFailed } = batch;
        this.model.knownBatches[shard]!.set(number, knownOf(batch));
        const sum = this.model.batches.get(number) ?? { done: 0, failed: 0 };
        this.model.batches.set(number, {
          done: sum.done + done + (shard === 0 ? formerDone : 0),
          failed: sum.failed + failed + (shard === 0 ? formerFailed : 0),
        });
      }
  }

  /** Returns the tubes in the order in which they were restored. */
  #tubesInOrder(): string[] {
    const tubes = this.server.shards.flatMap((core) => [...core.engine.tubes.values()]);
    return tubes.sort((a, b) => a.sequence - b.sequence).map((tube) => tube.name);
  }

  async #endProcess(how: ProcessEnd): Promise<void> {
    const log = this.log!;
    const server = this.server;
    let end = how;
    if (end === "stop") {
      this.acts.stopClients();
      server.stop();
      this.guard(() => server.settle());
      log.ledger.noteUnseen();
      server.stopLog();
      this.guard(() => server.settle());
      if (server.logEnd !== "closed") {
        assert.ok(this.isDoomed, "an orderly stop closes the log");
        end = "power";
      }
    }
    this.say(`the process ends: ${end}`);
    const { failure } = server.storage!;
    const { struck, wasShort } = log.weather;
    // Stopping a server whose log finds no room reports that the log could not be closed.
    const inVain = how === "stop" && wasShort && failure?.code === "BINLOG_NO_SPACE";
    if (failure !== undefined && !struck && !inVain) throw failure;
    this.schedulerSteps += server.stepsTaken;
    log.end(end, server.nowMs, this.model);
    this.restarts++;
    await this.startProcess(end);
  }

  get result(): SimulationResult {
    const schedulerSteps = this.schedulerSteps + this.server.stepsTaken;
    const [commands, sent, restarts] = [this.commands, this.sent, this.restarts];
    return { commands, sent, schedulerSteps, restarts, shape: this.shape };
  }

  async step(step: number): Promise<void> {
    const random = this.random;
    random.beginStep(step);
    if (this.isDoomed && (this.server.halted || random.chance(0.3))) {
      // After a failed sync the contents of the disk are unknown.
      await this.#endProcess("power");
      return;
    }
    const fault = this.options.faultAt?.(step);
    if (fault !== undefined) {
      await this.#strike(fault);
      this.check();
      return;
    }
    const hasLog = this.log !== undefined;
    const act = this.weighted({
      ...{ send: 10, run: 10, settle: 2, time: 2, connect: 1, leave: 0.5, vanish: 0.5, read: 2 },
      drain: 0.05,
      abort: this.aborts ? 1 : 0,
      room: hasLog ? 0.2 : 0,
      end: hasLog ? 0.4 : 0,
      clock: hasLog && this.clockSteps ? 0.5 : 0,
    });
    if (act === "send") this.acts.send();
    else if (act === "run") this.run(random.between(1, 25));
    else if (act === "settle") this.#settle();
    else if (act === "time") this.#passTime();
    else if (act === "connect") this.acts.connect();
    else if (act === "leave") this.acts.leave();
    else if (act === "vanish") this.acts.vanish();
    else if (act === "drain") this.#drain();
    else if (act === "abort") this.#abortInTime();
    else if (act === "room") this.say(this.log!.turnCapacity());
    else if (act === "clock") this.#stepClock();
    else if (act === "end") await this.#endInTheMiddle();
    else this.acts.read();
    this.check();
  }

  /** Does what a person asked for; without a log, a process that ends would lose everything. */
  async #strike(fault: Fault): Promise<void> {
    if (fault === "cut") {
      this.acts.cutOff();
      return;
    }
    const { log } = this;
    if (log === undefined) return;
    if (fault === "full") this.say(log.turnCapacity());
    else if (fault === "slow") this.say(log.slowDown());
    else if (fault === "torn") this.say(log.tearNextWrite());
    // After a failed sync the contents of the disk are unknown.
    else await this.#endProcess(this.isDoomed ? "power" : fault);
  }

  /** Ends the process while clients have something under way, and the log too. */
  async #endInTheMiddle(): Promise<void> {
    for (let i = this.random.between(0, 4); i > 0; i--) this.acts.send();
    this.run(this.random.between(0, 40));
    if (this.server.halted) return;
    await this.#endProcess(this.random.pick(["power", "power", "power", "kill", "stop"]));
  }

  /**
   * A client that waits for a batch says more just before a delayed job becomes ready, in the turn
   * of its shard even.
   */
  #abortInTime(): void {
    const client = this.random.pick(
      this.clients.filter((each) => each.canSend && each.pendingCount === 0 && !each.socket.isPaused),
    );
    if (client === undefined) return;
    const batch = { jobsMax: 2, bytesMax: Number.POSITIVE_INFINITY, tubes: false, mayAbort: true };
    // Rarely watched by others, and on one shard.
    const tube = WIDE_TUBES.at(-1)!;
    this.sendOne(client, this.draws.watch(client, tube));
    for (const other of client.watched.filter((each) => each !== tube))
      this.sendOne(client, this.draws.ignoreTube(client, other));
    this.sendOne(client, command.putInTube(tube, 0, 500, 3, this.body()));
    this.sendOne(client, command.reserveBatch(client, undefined, batch));
    this.#settle();
    const toDueMs = this.server.nextDueAtMs - this.server.nowMs;
    if (this.isDoomed || !client.canSend || !(toDueMs < WAITS_UNTIL_MS / 2)) return;
    this.server.nowMs += Math.max(0, toDueMs - 0.9);
    this.sendOne(client, command.fixed("list-tube-used", `USING ${client.used}\r\n`));
    this.run(30);
  }

  #drain(): void {
    this.say("SIGUSR1: the server drains");
    this.draining = true;
    this.server.drain();
  }

  #settle(): void {
    this.say("settle");
    this.guard(() => this.server.settle());
    if (this.isDoomed) return;
    for (const client of this.clients) client.forgetMoves();
    this.check();
    this.log?.checkRest();
    if (this.clients.every((client) => client.socket.readsAtOnce)) this.rests.checkRest();
  }

  #passTime(): void {
    const random = this.random;
    const { nowMs, nextDueAtMs } = this.server;
    // A job that waits for a batch has a deadline that never comes.
    const isDue = nextDueAtMs < WAITS_UNTIL_MS;
    const toDueMs = isDue ? Math.max(0, nextDueAtMs - nowMs) : 0;
    const ms = random.pick([
      random.next(),
      random.between(1, 300),
      1000 * random.between(1, 3),
      toDueMs,
      Math.max(0, toDueMs - 0.0005),
      toDueMs + random.next(),
    ]);
    this.server.nowMs += ms;
    this.say(`${ms} ms pass`);
  }

  /**
   * Lets all clients read, time pass and all clients leave: exactly the model's jobs must remain.
   */
  async finish(): Promise<void> {
    this.random.beginStep(-1);
    if (this.isDoomed) await this.#endProcess("power");
    this.say("the end");
    this.#calmDown();
    this.#endSchedules();
    this.server.tickMs = 0;
    // Totals are compared with the model's behind the reply: no time may pass meanwhile.
    this.server.dueInTurn = 0;
    for (const client of this.clients) if (!client.gone) client.socket.readAll();
    this.server.settle();
    // A reply to one that closed without reading stays in the arena until its socket fails.
    for (const client of this.clients)
      if (client.gone && client.socket.isPaused && !client.over) client.socket.reset();
    this.server.settle();
    this.check();
    this.rests.checkRest();
    this.rests.checkTotals();
    if (this.draining) this.rests.checkDrained();
    for (let i = 0; i < 3; i++) {
      this.server.advance(2000);
      this.check();
      this.log?.checkRest();
      this.rests.checkRest();
    }
    assert.ok(!this.server.isFull, "puts are taken again when the disk has room");
    if (this.random.chance(0.7)) this.acts.halfCloseAll();
    else this.acts.stopServer();
    this.server.settle();
    for (const client of this.clients) if (client.socket.isPaused && !client.over) this.acts.reset(client);
    this.server.settle();
    this.check();
    this.rests.checkRest();
    for (const job of this.model.jobs.values())
      assert.notEqual(job.state, "reserved", `job ${job.id} is unreserved`);
    this.rests.checkNobodyCounted();
    this.rests.deleteAll();
    if (this.log === undefined) return;
    await this.#endProcess("stop");
    assert.equal(this.model.jobs.size, 0, "what was deleted stays deleted");
  }

  /** No job comes by itself any more. */
  #endSchedules(): void {
    if (!this.flows) return;
    const socket = this.server.connect(0);
    for (const name of SCHEDULES) {
      this.counts.sent("delete-schedule");
      socket.write(Buffer.from(`delete-schedule ${name}\r\n`));
    }
    this.server.settle();
    assert.match(socket.takeReceived().toString("latin1"), /^(?:DELETED\r\n|NOT_FOUND\r\n){2}$/);
    socket.halfClose();
    this.server.settle();
  }

  /** The disk has room, and nothing happens to it any more. */
  #calmDown(): void {
    if (this.log === undefined) return;
    this.log.weather.end();
    this.log.disk.capacityBytes = Number.POSITIVE_INFINITY;
  }
}

const knownOf = ({ number, name, state, outcome, allDone, allFailed }: BatchRow): KnownBatch => ({
  ...{ number, name, state, outcome, allDone, allFailed },
});
