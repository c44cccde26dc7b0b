// Unanswered commands of a client, in the order in which they take effect.

import assert from "node:assert/strict";
import type { DurabilityLedger, OwedChange } from "../model/durability-ledger.ts";
import type { Model } from "../model/model.ts";
import type { ModelJob, ModelSession } from "../model/model-types.ts";
import type { FakeSocket } from "../server/fake-socket.ts";
import { BatchDeletes } from "./batch-deletes.ts";
import type { Command, SettingValueChanges } from "./command.ts";
import type { CommandCounts } from "./command-counts.ts";

import { ListOfAll } from "./list-of-all.ts";

/** World around a client: the facts besides the model on which its replies depend. */
export interface SimWorld {
  nowMs(): number;
  /** New jobs are refused since a moment before now. */
  isDraining(): boolean;
  /** The log had no room for new jobs when it was asked last. */
  isFull(): boolean;
  /** Promised changes, if there is a log. */
  readonly promises: DurabilityLedger | undefined;
  readonly counts: CommandCounts;
  /** A set-tube was answered: all tubes have it. */
  checkSet(pattern: string, values: SettingValueChanges): void;
  /**
   * Returns when the client of a session closed its connection to another acceptor than `acceptor`,
   * with nothing under way, as a place in the order of what clients do; Infinity if it did not.
   */
  closedAt(session: number, acceptor: number): number;
  /** The next place in that order. */
  nextPlace(): number;
}

export interface Pending {
  readonly command: Command;
  readonly sentAtMs: number;
  /** Place in the order of what clients do. */
  readonly sentAt: number;
  /** It was sent, and the command before it had taken effect: it can't have begun earlier. */
  arrivedEvent: number;
  arrivedAtMs: number;
  /** The reply that it must get, once it took effect. */
  reply: string | undefined;
  /** Replies that it may get. */
  readonly possible: Set<string>;
  /** For a touch-all: the shards that have touched its jobs. */
  readonly asked: Set<number>;
  /** Jobs that it was given. */
  given: Given[];
  /** They come from several shards, each in its own time. */
  isInParts: boolean;
  /** Outcome of each id of a delete-batch. */
  readonly deletes: BatchDeletes | undefined;
  /** For a list-jobs of all tubes: the jobs that it may list. */
  readonly listing: ListOfAll | undefined;
  /** For a touch-all: how many jobs the asked shards have touched. */
  held: number;
  /** Changes that must be durable before its reply leaves. */
  promised: readonly OwedChange[];
  /** For a move-jobs: the moved jobs, and whether it has begun. */
  moved: number;
  /** Bytes that its client has sent up to its beginning. */
  readonly beginsAt: number;
}

/** A job as it was when the client was given it. */
interface Given {
  readonly job: ModelJob;
  readonly pri: number;
  readonly id: number;
  /** Its tube when it was given: the holder may have moved it since. */
  readonly tube: string;
}

export const NOT_FOUND = "NOT_FOUND\r\n";

export class PendingCommands {
  readonly name: string;
  readonly socket: FakeSocket;
  /** Changes, as its acceptor does, when its connection moves. */
  session: number;
  acceptor: number;
  /** Tubes in use and watched after the commands sent so far. */
  used = "default";
  watched: string[] = ["default"];
  halfClosed = false;
  quits = false;
  /** Its end of the connection is gone; replies mean nothing any more. */
  gone = false;
  /** The server stops: it answers what is under way, and nothing else. */
  stopped = false;
  /** Whether it has sent an incomplete command. */
  saidMore = false;
  /** All its replies have come and the connection is closed. */
  over = false;
  readonly model: Model;
  readonly world: SimWorld;
  readonly pending: Pending[] = [];
  /** The first pending command that is not known to have taken effect. */
  cursor = 0;
  lastPutId = 0;
  commandBytes = 0;
  /** Bytes of replies that wait for the log, or for the end of the turn. */
  unsent = "";
  /** The command answered last. */
  answered: Pending | undefined;

  constructor(
    name: string,
    socket: FakeSocket,
    { session, acceptor }: { session: number; acceptor: number },
    model: Model,
    world: SimWorld,
  ) {
    this.name = name;
    this.socket = socket;
    this.session = session;
    this.acceptor = acceptor;
    this.model = model;
    this.world = world;
  }

  nowMs(): number {
    return this.world.nowMs();
  }

  get pendingCount(): number {
    return this.pending.length;
  }

  /** The first command without a reply, in words. */
  get oldest(): string {
    return this.pending[0]?.command.text ?? "nothing";
  }

  get canSend(): boolean {
    return !this.halfClosed && !this.quits && !this.gone && !this.over;
  }

  send(command: Command): void {
    const beginsAt = this.commandBytes;
    this.socket.write(command.bytes);
    this.commandBytes += command.bytes.length;
    this.world.counts.sent(command.text);
    if (command.kind === "quit") {
      this.quits = true;
      return;
    }
    const pending: Pending = {
      command,
      sentAtMs: this.nowMs(),
      sentAt: this.world.nextPlace(),
      arrivedEvent: this.model.event,
      arrivedAtMs: this.nowMs(),
      reply: command.kind === "fixed" ? command.reply : command.kind === "set" ? "SET\r\n" : undefined,
      possible: new Set(),
      asked: new Set(),
      given: [],
      isInParts: false,
      deletes: command.kind === "delete-batch" ? new BatchDeletes(command.ids) : undefined,
      listing: command.kind === "list-all" ? new ListOfAll(command.afterId, command.limit) : undefined,
      held: 0,
      promised: [],
      moved: 0,
      beginsAt,
    };
    this.pending.push(pending);
    this.noteReads();
  }

  modelSession(): ModelSession {
    return this.model.connections.session(this.session);
  }

  fail(what: string): never {
    assert.fail(`client ${this.name}: ${what}`);
  }

  /**
   * Returns whether later commands may take effect although no effect of this one was seen: it has
   * none, or it is done.
   */
  canBePassed(pending: Pending): boolean {
    const { kind } = pending.command;
    if (pending.reply !== undefined || kind === "read" || kind === "gather" || kind === "list-all")
      return true;
    // On one shard what comes behind a batch may take effect before its reply is seen.
    if (pending.given.length > 0 || pending.deletes?.isDone || kind === "move") return true;
    // A client that holds nothing gets its reply from the acceptor.
    if (kind === "touch-all" && (pending.asked.size > 0 || this.gone)) return true;
    if ((kind === "put" && this.world.isDraining()) || kind === "run") return true;
    // A reserve over several shards that ends with the client's half of the connection is not seen
    // before its reply.
    return (
      pending.possible.size > 0 || ((this.gone || this.halfClosed || this.stopped) && kind === "reserve")
    );
  }

  /** Adds the answers that reads under way could be given now. */
  noteReads(): void {
    for (let at = this.cursor; at < this.pending.length; at++) {
      const pending = this.pending[at]!;
      this.#noteMissing(pending);
      const { command } = pending;
      if (command.kind === "read") pending.possible.add(command.answer(this.model));
      else if (command.kind === "list-all") pending.listing!.note(command.rows(this.model));
      else if (!this.canBePassed(pending)) return;
    }
  }

  /**
   * A command by id finds nothing if there is no such job: where shards are only asked for it
   * nothing else tells.
   */
  #noteMissing({ command, reply, possible }: Pending): void {
    if (reply !== undefined) return;
    if (command.kind !== "by-id" && command.kind !== "kick-job" && command.kind !== "cancel-job") return;
    if (!this.model.jobs.has(command.id)) possible.add(NOT_FOUND);
  }

  /** The command that just took effect: all before it have, as far as they have one. */
  take(what: string, matches: (pending: Pending) => boolean): Pending {
    for (; this.cursor < this.pending.length; this.cursor++) {
      const pending = this.pending[this.cursor]!;
      if (matches(pending)) return pending;
      if (!this.canBePassed(pending)) this.fail(`${what} took effect before "${pending.command.text}"`);
    }
    this.fail(`${what} took effect, but was not sent`);
  }

  /** Returns whether such a command is under way, and all before it can be passed. */
  mayReach(matches: (pending: Pending) => boolean): boolean {
    for (let at = this.cursor; at < this.pending.length; at++) {
      const pending = this.pending[at]!;
      if (matches(pending)) return true;
      if (!this.canBePassed(pending)) return false;
    }
    return false;
  }

  /** `id` is the job that the command has changed, -1 for all that its call has. */
  settle(pending: Pending, reply: string, id = 0): void {
    pending.reply = reply;
    const changes = this.world.promises?.lastCall ?? [];
    pending.promised = id === -1 ? changes : changes.filter((change) => change.id === id);
    this.noteEffect();
  }

  /** The command at the cursor took effect: later ones may begin now. */
  noteEffect(): void {
    for (const pending of this.pending.slice(this.cursor + 1)) this.#noteArrival(pending);
  }

  #noteArrival(pending: Pending): void {
    pending.arrivedEvent = this.model.event;
    pending.arrivedAtMs = this.nowMs();
  }

  /**
   * Its reserves over several shards may be refused by its acceptor, and nothing tells before the
   * reply.
   */
  get mayBeRefusedUnseen(): boolean {
    return this.gone || this.halfClosed || this.stopped;
  }

  /** Ends the moves that it had in flight when it left. */
  forgetMoves(): void {
    if (!this.gone) return;
    for (const [at, { command }] of this.pending.entries())
      if (command.kind === "move") this.pending[at]!.reply = "over";
  }

  /** Returns whether such a command is not known to have taken effect. */
  isUnderWay(matches: (command: Command) => boolean): boolean {
    return this.pending.some((pending) => pending.reply === undefined && matches(pending.command));
  }

  /**
   * Returns whether some shard may still be asked for such a command: it is not answered, or
   * nothing was since it was.
   */
  mayBeAsked(matches: (command: Command) => boolean): boolean {
    return [...this.pending, this.answered].some((each) => each !== undefined && matches(each.command));
  }
}

export const isOpenReserve = (pending: Pending): boolean =>
  pending.reply === undefined && pending.given.length === 0 && pending.command.kind === "reserve";
