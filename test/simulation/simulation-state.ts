// State of a simulation: what its seed has drawn, the present process, and its clients.

import { commandIn } from "../support/conversations/command-lines.ts";
import { checkRings } from "../support/in-process/ring-invariants.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { checkBatches } from "./batches/batch-checks.ts";
import type { Command } from "./client/command.ts";
import { CommandCounts } from "./client/command-counts.ts";
import type { SimWorld } from "./client/pending-commands.ts";
import type { SimClient } from "./client/sim-client.ts";
import type { Fault } from "./faults.ts";
import type { Model } from "./model/model.ts";
import { type InProcessOptions, LogIsGone } from "./server/in-process-options.ts";
import type { InProcessServer } from "./server/in-process-server.ts";
import { SimulatedLog } from "./server/simulated-log.ts";
import type { EngineWitness } from "./witness/engine-witness.ts";

export const WIDE_TUBES = Array.from({ length: 10 }, (_, i) => `wide-${i}`);

/** Breaks the server before it starts, for the canary. */
type Plant = (server: InProcessServer) => void;

export interface SimulationOptions {
  readonly seed: number;
  readonly steps: number;
  /** Plays only these steps, so that a failure can be told with fewer. */
  readonly only?: ReadonlySet<number>;
  /** Makes the server; a planted bug may live in a subclass. */
  readonly createServer?: (options: InProcessOptions) => InProcessServer;
  readonly plant?: Plant;
  /** Whether clients send commands that beanstalkd does not have; true by default. */
  readonly extensions?: boolean;
  /** Whether jobs have options and tubes settings, where there is no log; true by default. */
  readonly policies?: boolean;
  /**
   * Whether there is a log, and jobs have options and tubes settings all the same; every other run
   * with a log is so where nothing is said of extensions.
   */
  readonly durable?: boolean;
  /** Whether jobs are moved; by default if `extensions` is left out. */
  readonly jobMoves?: boolean;
  /** Whether tubes have weights; every seventh run by default if `extensions` is left out. */
  readonly weights?: boolean;
  /**
   * Whether there are batches and schedules; in every ninth run by default if `extensions` is left
   * out.
   */
  readonly flows?: boolean;
  /**
   * Whether puts often have the key of a job that is there, where jobs have options; every eleventh
   * run by default if `extensions` is left out.
   */
  readonly duplicates?: boolean;
  /**
   * Whether clients cancel jobs, and report the progress of theirs; every eighth run by default if
   * `extensions` is left out.
   */
  readonly cancels?: boolean;
  /**
   * Whether batches wait until they are full; every sixth run by default if `extensions` is left
   * out.
   */
  readonly fills?: boolean;
  /**
   * Whether many batches have jobs of one group; every fifth run by default if `extensions` is left
   * out.
   */
  readonly oneGroups?: boolean;
  /**
   * Whether the wall clock is set while servers run, and is wrong at some starts, where there is a
   * log; in every fourth run by default if `extensions` is left out.
   */
  readonly clockSteps?: boolean;
  /** How many times as often as usual an act or a kind of command is drawn. */
  readonly often?: Readonly<Record<string, number>>;
  /** Told of each step before it is taken. */
  readonly onStep?: (step: number) => void;
  /** Told of each act of the run, in words. */
  readonly onAct?: (what: string) => void;
  /** Names the fault, if any, that takes the place of what the seed draws for a step. */
  readonly faultAt?: (step: number) => Fault | undefined;
}

const JOB_BYTES_MAX = 6000;

/** More of a reply than is sent before its client reads. */
const HUGE_BODY_BYTES = 300_000;

const TUBES = ["default", "a", "b", "c", "d", "e", "wide-0", "wide-1"];

/** Weights of puts and reserves: with more reserves than puts most of them wait. */
const APPETITES: readonly [[number, number], ...[number, number][]] = [
  [10, 9],
  [8, 16],
  [4, 16],
];

export class SimulationState {
  /** Last acts of the simulation, for the message. */
  readonly lastActs: string[] = [];
  readonly options: SimulationOptions;
  readonly random: SeededRandom;
  readonly log: SimulatedLog | undefined;
  /** Probability that a client sends several commands at once. */
  readonly hurry: number;
  readonly puts: number;
  readonly reserves: number;
  readonly #bigBodies: number;
  /** Whether clients send all kinds of commands. */
  readonly #hasAll: boolean;
  readonly extensions: boolean;
  /** No option restricts its draws, as the search for a planted bug does. */
  readonly isUsual: boolean;
  readonly policies: boolean;
  readonly hasRates: boolean;
  /** Whether clients give weights to their tubes, and choose an order of reserves. */
  readonly weights: boolean;
  /** Whether jobs belong to batches and wait for them, and schedules put some. */
  readonly flows: boolean;
  /** Whether puts often have the key of a job that is there. */
  readonly duplicates: boolean;
  /** Whether clients cancel jobs, and report the progress of theirs. */
  readonly cancels: boolean;
  /** Whether batches wait until they are full. */
  readonly fills: boolean;
  /** Whether many batches have jobs of one group. */
  readonly oneGroups: boolean;
  readonly clockSteps: boolean;
  /** Weight of commands that move jobs. */
  readonly jobMoves: number;
  /** Whether clients abort batches at the moment a job comes. */
  readonly aborts: boolean;
  /** Rings are often full and threads delayed for long, so everything depends on wakes. */
  readonly isCrowded: boolean;
  readonly jobBytesMax: number;
  readonly holdUps: number;
  readonly forgetful: number;
  readonly tickMs: number;
  readonly ringBytes: number;
  firstJobId: number;
  server!: InProcessServer;
  model!: Model;
  counts = new CommandCounts();
  lastPlace = 0;
  /** Clients that closed with nothing under way, by session, until it is another's. */
  closed = new Map<number, { acceptor: number; place: number }>();
  /** The jobs of ticks, by their keys, in all processes. */
  readonly ticks = new Map<string, number>();
  witnesses: EngineWitness[] = [];
  clients: SimClient[] = [];
  world!: SimWorld;
  shards = 0;
  transits = 0;
  acceptors = 0;
  draining = false;
  /** Whether the log was full when an engine asked last. */
  wasFull = false;
  startedAtMs = 0;
  commands = 0;
  readonly sent = new Set<string>();
  schedulerSteps = 0;
  restarts = 0;
  clientsMade = 0;

  constructor(options: SimulationOptions) {
    this.options = options;
    this.extensions = options.extensions ?? true;
    const random = new SeededRandom(options.seed);
    this.random = random;
    // No draw, so that all other seeds are the same runs as before.
    this.isCrowded = options.seed % 5 === 3;
    const hurry = random.pick([0.1, 0.5, 0.9]);
    this.hurry = this.isCrowded ? 0.9 : hurry;
    const [puts, reserves] = random.pick<readonly [number, number]>(APPETITES);
    this.puts = puts;
    this.reserves = reserves;
    const bigBodies = random.pick([0.02, 0.3]);
    this.#bigBodies = this.isCrowded ? 0.6 : bigBodies;
    const holdUps = random.pick([0, 0.1, 0.5]);
    this.holdUps = this.isCrowded ? Math.max(holdUps, 0.1) : holdUps;
    const hasHugeBodies = random.chance(0.1);
    this.jobBytesMax = hasHugeBodies ? HUGE_BODY_BYTES : JOB_BYTES_MAX;
    this.forgetful = random.pick([0, 0, 0.3]);
    this.ringBytes = hasHugeBodies ? 1 << 16 : random.pick([4096, 4096, 8192]);
    this.tickMs = random.pick([0, 0.01, 1]);
    this.firstJobId = random.pick([1, 1, 2 ** 24 - 20, 2 ** 32 - 20]);
    const isLogged = random.chance(0.5) || options.durable === true;
    this.isUsual = options.jobMoves === undefined && options.extensions === undefined;
    this.#hasAll = this.isUsual && options.seed % 17 === 11;
    // No draw, so that two seeds of three are the same run as before there were rates.
    this.hasRates = options.seed % 3 === 0 || this.#hasAll;
    const isDurable = options.durable ?? (this.isUsual && (options.seed % 2 === 1 || this.#hasAll));
    this.policies = this.extensions && (!isLogged || isDurable) && (options.policies ?? true);
    this.weights = this.#has(options.weights, 4, 7);
    this.flows = this.#has(options.flows, 7, 9);
    this.clockSteps = this.#has(options.clockSteps, 3, 4);
    const wallClock = { steps: this.clockSteps, schedules: this.flows };
    this.log = isLogged ? new SimulatedLog(random, wallClock) : undefined;
    this.duplicates = this.policies && this.#has(options.duplicates, 8, 11);
    this.cancels = this.#has(options.cancels, 6, 8);
    this.fills = this.#has(options.fills, 2, 6);
    this.oneGroups = this.#has(options.oneGroups, 2, 5);
    const jobMoves = options.jobMoves ?? this.isUsual;
    this.aborts = this.extensions && options.seed % 10 === 5;
    this.jobMoves = jobMoves ? random.pick([2, 10, 60]) : 0;
  }

  /**
   * Returns whether clients send a kind of commands: as asked, or in one seed of `of`, or in a run
   * with all kinds: some never meet otherwise, since their seeds exclude each other. It draws
   * nothing, so that the other seeds are the same runs as before there were such commands.
   */
  #has(asked: boolean | undefined, place: number, of: number): boolean {
    return this.extensions && (asked ?? (this.isUsual && (this.options.seed % of === place || this.#hasAll)));
  }

  /** Whether the next batch has jobs of one group only. */
  drawsOneGroup(): boolean {
    return this.oneGroups && this.random.chance(0.5);
  }

  get shape(): string {
    const log = this.log === undefined ? "no log" : `log synced ${this.log.syncEvery}`;
    return `${this.shards} shards, ${this.acceptors} acceptors, ${log}, process ${this.restarts + 1}`;
  }

  /**
   * Whether the process can't go on: the power is gone, or the log has failed, which its main
   * thread finds out soon.
   */
  get isDoomed(): boolean {
    return this.server.halted || this.server.logEnd === "failed";
  }

  /** Runs threads; a shard may be stuck for good if the log is gone. */
  guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      if (!(error instanceof LogIsGone)) throw error;
      this.server.halt();
    }
  }

  sessionOf(acceptor: number, slot: number): number {
    return slot * this.acceptors + acceptor;
  }

  say(what: string): void {
    this.options.onAct?.(what);
    this.lastActs.push(what);
    if (this.lastActs.length > 12) this.lastActs.shift();
  }

  check(): void {
    // A shard that is stuck in a command has done half of it.
    if (this.server.halted) return;
    for (const witness of this.witnesses) witness.check();
    if (this.flows) checkBatches(this.server.shards.map(({ engine }) => engine));
    checkRings(this.server.topology);
  }

  run(steps: number): void {
    this.guard(() => {
      for (let i = 0; i < steps && this.server.step(); i++) this.check();
    });
  }

  sendOne(client: SimClient, next: Command): void {
    this.say(`client ${client.name}: ${next.text}`);
    this.commands++;
    const name = commandIn(next.text);
    if (name !== undefined) this.sent.add(name);
    client.send(next);
  }

  /** Draws an act or a kind of command. */
  weighted<Kind extends string>(weights: Record<Kind, number>): Kind {
    const { often = {} } = this.options;
    for (const kind of Object.keys(often)) if (kind in weights) weights[kind as Kind] *= often[kind]!;
    return this.random.weighted(weights);
  }

  tube(): string {
    return this.random.pick(TUBES)!;
  }

  body(): string {
    const random = this.random;
    const isBig = random.chance(this.#bigBodies);
    const bytes = isBig
      ? random.pick([900, 975, 976, 977, 1000, 3000, this.jobBytesMax])
      : random.between(0, 20);
    return String.fromCharCode(random.between(97, 122)).repeat(bytes);
  }

  /** The id of some job, most often one that is there. */
  id(client: SimClient): number {
    const random = this.random;
    const jobs = [...this.model.jobs.values()];
    const held = jobs.filter((job) => job.holder?.index === client.session);
    if (held.length > 0 && random.chance(0.6)) return random.pick(held)!.id;
    const job = random.chance(0.95) ? random.pick(jobs) : undefined;
    return job?.id ?? random.pick([0, 1, 7, 999_999, 2 ** 33]);
  }

  /**
   * Returns whether no client has such a command in flight: engines don't report whose kick-job,
   * pause-tube or clear-tube it is.
   */
  isFree(matches: (each: Command) => boolean): boolean {
    return !this.clients.some((client) => client.mayBeAsked(matches));
  }

  /** A counter of all acceptors together. */
  counted(counter: number): number {
    return this.server.acceptors.reduce((sum, { counters }) => sum + counters[counter]!, 0);
  }
}
