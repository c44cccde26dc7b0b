// What the connections of one acceptor share: the rings to the shards, the log, queues, counters.

import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import { Counter, countersOf, type Origin, portRole, type Topology } from "../../message/topology.ts";
import { CommandParser } from "../../protocol/command-parser.ts";
import { COMMANDS, type Command, STRICT_COMMANDS } from "../../protocol/commands.ts";
import { ClaimWords, WorkerNames } from "../../ring/connection-words.ts";
import { SerialQueue } from "../fanout/conversation.ts";
import { ListReplies } from "../fanout/list-reply.ts";
import { TubeListings } from "../fanout/list-tubes.ts";
import { GatherBudget } from "../fanout/pick-batch.ts";
import type { ConnectionMigrator } from "../migration/connection-migrator.ts";
import type { ClosedConnections } from "../state/connection-facts.ts";
import { WaitingInput } from "../state/input-limit.ts";
import type { ManualChanges } from "../state/manual-changes.ts";
import { PendingReplies, RunQueues } from "../state/run-queues.ts";
import { JobPlaces, LogProgress, ShardLinks } from "../state/shard-links.ts";
import { TubeRef } from "../state/watch-list.ts";
import { CommandSampler } from "../stream/output.ts";

export interface AcceptorOptions {
  topology: Topology;
  acceptor: number;
  nowMs: () => number;
  /** Returns the text of `stats`, after every shard has updated its counters. */
  statsText: () => string;
  /** Receives a line for each command and reply (-VV). */
  trace?: ((line: string) => void) | undefined;
  /** Whether this acceptor accepts the extended commands. Default: the topology's protocol. */
  extended?: boolean;
  /** Slots below this number are not given to connections. */
  firstSlot?: number;
  /** Records closed connections. If undefined, none are recorded. */
  closed?: ClosedConnections | undefined;
}

export class AcceptorState {
  readonly topology: Topology;
  readonly shards: number;
  readonly links: ShardLinks;
  readonly places: JobPlaces;
  readonly log: LogProgress;
  /** Counters of this thread, indexed by Counter. */
  readonly counters: Float64Array;
  readonly runQueues: RunQueues = new RunQueues();
  readonly pendingReplies: PendingReplies = new PendingReplies();
  readonly waitingInput: WaitingInput = new WaitingInput(this.runQueues);
  readonly sampler: CommandSampler;
  readonly claims: ClaimWords;
  /** The names by which shards know the workers, by slot. */
  readonly workerNames: WorkerNames;
  /** The arenas of shards that run in the acceptor's thread. */
  readonly arenas: (BodyArena | undefined)[] = [];
  readonly parser: CommandParser;
  readonly defaultTube: TubeRef;
  readonly listReplies: ListReplies = new ListReplies();
  readonly tubeListings: TubeListings;
  readonly gatherBudget: GatherBudget = new GatherBudget();
  /** Serialises lists of jobs that span all shards. */
  readonly listQueue: SerialQueue = new SerialQueue();
  /** Records changes by hand. The thread of HTTP has an audit of its own. */
  changes: ManualChanges | undefined;
  /** Moves connections to other acceptors, if migration is on. */
  migrator: ConnectionMigrator | undefined;
  /** Records closed connections, if something asks for them. */
  readonly closed: ClosedConnections | undefined;
  /** Receives a line for each command and reply (-VV). */
  readonly trace: ((line: string) => void) | undefined;
  readonly nowMs: () => number;
  /** Returns the text of `stats`, after every shard has updated its counters. */
  readonly statsText: () => string;
  /** The servers whose job ids are valid here; known when the log is loaded, before any client. */
  origins: readonly Origin[] = [];
  readonly #hasOthers: boolean;
  /** Overrides whether the extended commands are accepted; undefined: as the topology says. */
  readonly #extended: boolean | undefined;
  /** The time of the current turn, read on first use; 0 until then. */
  protected turnTimeMs = 0;

  constructor(options: AcceptorOptions) {
    const { topology, acceptor } = options;
    this.topology = topology;
    this.shards = topology.shards;
    this.#hasOthers = topology.acceptors > (acceptor < topology.acceptors ? 1 : 0);
    this.#extended = options.extended;
    this.tubeListings = new TubeListings(topology.shards);
    this.nowMs = options.nowMs;
    this.statsText = options.statsText;
    this.trace = options.trace;
    this.closed = options.closed;
    this.parser = this.parserWith([]);
    this.defaultTube = new TubeRef("default", topology.shards);
    this.claims = new ClaimWords(topology.claims[acceptor]!);
    this.workerNames = new WorkerNames(topology.workerNames[acceptor]!);
    this.counters = countersOf(topology, portRole(topology, acceptor));
    this.sampler = new CommandSampler(this.counters, this.nowMs);
    this.links = new ShardLinks(topology, acceptor);
    this.places = new JobPlaces(topology);
    this.log = new LogProgress(topology);
  }

  /** Returns a parser that accepts `further` commands besides the server's own. */
  parserWith(further: readonly Command[]): CommandParser {
    const { jobBytesMax, protocol } = this.topology;
    const commands = (this.#extended ?? protocol === "extended") ? COMMANDS : STRICT_COMMANDS;
    return new CommandParser(jobBytesMax, [...commands, ...further]);
  }

  /** Changes the name by which shards know the worker in a slot. */
  nameWorker(slot: number, name: string): void {
    this.workerNames.set(slot, name);
  }

  /** The time of the current turn, in monotonic ms. */
  get turnAtMs(): number {
    if (this.turnTimeMs === 0) this.turnTimeMs = this.nowMs();
    return this.turnTimeMs;
  }

  /**
   * Whether an acceptor may know of the end of a connection that has not reached the shards, or
   * find one when it reads its sockets: another one, or this one if it reads ends late.
   */
  get barrierHelps(): boolean {
    return this.#hasOthers || this.counters[Counter.ReadsEndsLate] === 1;
  }
}
