// One simulated client: its unanswered commands, and whether each reply is allowed.
//
// Commands of one client take effect in the order in which they were sent. A command that changes
// something has taken effect when its engine's call is seen; its reply must then be the one that
// the model gives. A command that only reads may be answered as of any moment between the previous
// effect and its reply. If an acceptor refuses a reserve over several shards, there is no call, and
// the reply is checked against the promise of shared-reserve.ts.

import assert from "node:assert/strict";
import type { CommandCounts } from "../model/command-counts.ts";
import type { DurabilityLedger, OwedChange } from "../model/durability-ledger.ts";
import { isBetter } from "../model/job-order.ts";
import type { Model } from "../model/model.ts";
import type { PutOptions } from "../model/model-policies.ts";
import type { ModelJob, ModelSession } from "../model/model-types.ts";
import type { FakeSocket } from "../server/fake-socket.ts";
import type { ByIdCommand } from "../witness/command-sink.ts";
import { BatchDeletes } from "./batch-deletes.ts";
import { type Command, comparable, reserved, type SettingValueChanges } from "./command.ts";
import { ListOfAll } from "./list-of-all.ts";

/** What a client's replies depend on besides the model. */
export interface SimWorld {
  nowMs(): number;
  /** New jobs are refused since a moment before now. */
  isDraining(): boolean;
  /** The log had no room for new jobs when it was asked last. */
  isFull(): boolean;
  /** What has been promised, where there is a log. */
  readonly promises: DurabilityLedger | undefined;
  readonly counts: CommandCounts;
  /** A set-tube was answered: all tubes have it. */
  checkSet(pattern: string, values: SettingValueChanges): void;
  /**
   * When the client of a session closed its connection to another acceptor than `acceptor`, with
   * nothing under way, as a place in the order of what clients do; Infinity if it did not.
   */
  closedAt(session: number, acceptor: number): number;
  /** The next place in that order. */
  nextPlace(): number;
}

interface Pending {
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
  /** Shards that were asked for its job. */
  readonly asked: Set<number>;
  /** Jobs that it was given. */
  given: Given[];
  /** They come from several shards, each in its own time. */
  isInParts: boolean;
  /** What became of the ids of a delete-batch. */
  readonly deletes: BatchDeletes | undefined;
  /** For a list-jobs of all tubes: the jobs that it may list. */
  readonly listing: ListOfAll | undefined;
  /** For a touch-all: how many jobs the asked shards have touched. */
  held: number;
  /** What must be durable before its reply leaves. */
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
  /** Whoever has it may have sent it to another one since. */
  readonly tube: string;
}

/** A reply that may still be held back. */
interface Owing {
  /** Position behind it among all bytes of replies. */
  readonly endsAt: number;
  readonly promised: readonly OwedChange[];
}

/** Unused input at which the server stops reading from a client that waits. */
const WAITING_INPUT_BYTES_MAX = 512 * 1024;

const DONE: Readonly<Record<Exclude<ByIdCommand, "reserve-job">, string>> = {
  delete: "DELETED\r\n",
  release: "RELEASED\r\n",
  bury: "BURIED\r\n",
  touch: "TOUCHED\r\n",
  "update-job": "UPDATED\r\n",
};
const NOT_FOUND = "NOT_FOUND\r\n";

export class SimClient {
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
  /** It has sent bytes that are no whole command. */
  saidMore = false;
  /** All its replies have come and the connection is closed. */
  over = false;
  readonly #model: Model;
  readonly #world: SimWorld;
  readonly #pending: Pending[] = [];
  /** The first pending command that is not known to have taken effect. */
  #cursor = 0;
  #lastPutId = 0;
  #text = "";
  #commandBytes = 0;
  /** Bytes of replies that wait for the log, or for the end of the turn. */
  #unsent = "";
  #answeredBytes = 0;
  #sentBytes = 0;
  readonly #owing: Owing[] = [];
  /** The command answered last. */
  #answered: Pending | undefined;

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
    this.#model = model;
    this.#world = world;
    socket.onAnswered = (bytes) => this.#onAnsweredBytes(bytes);
    socket.onSent = (bytes) => this.#onSentBytes(bytes);
    socket.onEnding = () => this.#onEnding();
  }

  #nowMs(): number {
    return this.#world.nowMs();
  }

  get pendingCount(): number {
    return this.#pending.length;
  }

  /** The first command without a reply, in words. */
  get oldest(): string {
    return this.#pending[0]?.command.text ?? "nothing";
  }

  get canSend(): boolean {
    return !this.halfClosed && !this.quits && !this.gone && !this.over;
  }

  send(command: Command): void {
    const beginsAt = this.#commandBytes;
    this.socket.write(command.bytes);
    this.#commandBytes += command.bytes.length;
    this.#world.counts.sent(command.text);
    if (command.kind === "quit") {
      this.quits = true;
      return;
    }
    const pending: Pending = {
      command,
      sentAtMs: this.#nowMs(),
      sentAt: this.#world.nextPlace(),
      arrivedEvent: this.#model.event,
      arrivedAtMs: this.#nowMs(),
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
    this.#pending.push(pending);
    this.noteReads();
  }

  #session(): ModelSession {
    return this.#model.connections.session(this.session);
  }

  #fail(what: string): never {
    assert.fail(`client ${this.name}: ${what}`);
  }

  /**
   * Whether later commands may take effect although no effect of this one was seen: it has none, or
   * it is done.
   */
  #canBePassed(pending: Pending): boolean {
    const { kind } = pending.command;
    if (pending.reply !== undefined || kind === "read" || kind === "gather" || kind === "list-all")
      return true;
    // On one shard what comes behind a batch may take effect before its reply is seen.
    if (pending.given.length > 0 || pending.deletes?.isDone || kind === "move") return true;
    // Whoever holds nothing is told so by its acceptor.
    if (kind === "touch-all" && (pending.asked.size > 0 || this.gone)) return true;
    if (kind === "put" && this.#world.isDraining()) return true;
    // A reserve over several shards that ends with the client's half of the connection is not seen
    // before its reply.
    return (
      pending.possible.size > 0 || ((this.gone || this.halfClosed || this.stopped) && kind === "reserve")
    );
  }

  // --- effects -----------------------------------------------------------------------------------

  /** Adds the answers that reads under way could be given now. */
  noteReads(): void {
    for (let at = this.#cursor; at < this.#pending.length; at++) {
      const pending = this.#pending[at]!;
      this.#noteMissing(pending);
      const { command } = pending;
      if (command.kind === "read") pending.possible.add(command.answer(this.#model));
      else if (command.kind === "list-all") pending.listing!.note(command.rows(this.#model));
      else if (!this.#canBePassed(pending)) return;
    }
  }

  /**
   * A command by id finds nothing if there is no such job: where shards are only asked for it
   * nothing else tells.
   */
  #noteMissing({ command, reply, possible }: Pending): void {
    if (reply !== undefined || (command.kind !== "by-id" && command.kind !== "kick-job")) return;
    if (!this.#model.jobs.has(command.id)) possible.add(NOT_FOUND);
  }

  /** The command that just took effect: all before it have, as far as they have one. */
  #take(what: string, matches: (pending: Pending) => boolean): Pending {
    for (; this.#cursor < this.#pending.length; this.#cursor++) {
      const pending = this.#pending[this.#cursor]!;
      if (matches(pending)) return pending;
      if (!this.#canBePassed(pending)) this.#fail(`${what} took effect before "${pending.command.text}"`);
    }
    this.#fail(`${what} took effect, but was not sent`);
  }

  /** Whether such a command is under way, and all before it can be passed. */
  #mayReach(matches: (pending: Pending) => boolean): boolean {
    for (let at = this.#cursor; at < this.#pending.length; at++) {
      const pending = this.#pending[at]!;
      if (matches(pending)) return true;
      if (!this.#canBePassed(pending)) return false;
    }
    return false;
  }

  /** `id` is the job that the command has changed, -1 for all that its call has. */
  #settle(pending: Pending, reply: string, id = 0): void {
    pending.reply = reply;
    const changes = this.#world.promises?.lastCall ?? [];
    pending.promised = id === -1 ? changes : changes.filter((change) => change.id === id);
    this.#noteEffect();
  }

  /** The command at the cursor took effect: later ones may begin now. */
  #noteEffect(): void {
    for (const pending of this.#pending.slice(this.#cursor + 1)) this.#noteArrival(pending);
  }

  #noteArrival(pending: Pending): void {
    pending.arrivedEvent = this.#model.event;
    pending.arrivedAtMs = this.#nowMs();
  }

  onPut(job: ModelJob): void {
    assert.ok(
      !this.#world.isDraining(),
      `client ${this.name}: job ${job.id} is put although the server drains`,
    );
    assert.ok(!this.#world.isFull(), `client ${this.name}: job ${job.id} is put although the log is full`);
    const pending = this.#take(
      `put of job ${job.id}`,
      ({ command, reply }) => reply === undefined && command.kind === "put",
    );
    const { command } = pending;
    assert.ok(command.kind === "put");
    assert.deepEqual(
      [job.tube.name, job.pri, job.delaySeconds, job.ttrSeconds, job.body],
      [command.tube, command.pri, command.delaySeconds, command.ttrSeconds, command.body],
      `client ${this.name}: what "${command.text}" has put`,
    );
    this.#checkOptions(pending, command.options, job);
    assert.ok(job.id > this.#lastPutId, `client ${this.name}: ids grow`);
    this.#lastPutId = job.id;
    this.#settle(pending, `INSERTED ${job.id}\r\n`, job.id);
  }

  /** The job has the options of its put; times count from some moment since that was sent. */
  #checkOptions({ sentAtMs }: Pending, options: PutOptions, { policy, tube }: ModelJob): void {
    const { key, untilReserve, keyForMs, ttlMs, group, weight } = options;
    assert.deepEqual(
      [policy.key, policy.untilReserve, policy.group, policy.weight],
      [key, untilReserve, group, weight],
      `client ${this.name}: options of its put`,
    );
    const counts = (untilMs: number, forMs: number): boolean =>
      forMs === 0 ? untilMs === 0 : untilMs >= sentAtMs + forMs && untilMs <= this.#nowMs() + forMs;
    const livesMs = ttlMs === 0 ? tube.resolved.values.ttlMs : ttlMs;
    assert.ok(counts(policy.keyUntilMs, keyForMs), `client ${this.name}: until when its key lasts`);
    assert.ok(counts(policy.expiresAtMs, livesMs), `client ${this.name}: until when its job lives`);
  }

  /** Its key is taken, or its tube is full. */
  onPutDeclined(reply: string): void {
    assert.ok(!this.#world.isDraining(), `client ${this.name}: a put is judged although the server drains`);
    const pending = this.#take(
      `a put that is answered ${reply}`,
      ({ command, reply: known }) => known === undefined && command.kind === "put",
    );
    this.#settle(pending, reply);
  }

  /** The log had no room for it. */
  onPutRefused(): void {
    assert.ok(this.#world.isFull(), `client ${this.name}: a put is refused although the log has room`);
    const pending = this.#take(
      "a refused put",
      ({ command, reply }) => reply === undefined && command.kind === "put",
    );
    this.#settle(pending, "OUT_OF_MEMORY\r\n");
  }

  onReserved(job: ModelJob): void {
    const watches = ({ command }: Pending): boolean =>
      command.kind === "reserve" && command.watched.includes(job.tube.name);
    const pending = this.#take(
      `reservation of job ${job.id}`,
      (each) => isOpenReserve(each) && (!this.#mayBeRefusedUnseen || watches(each)),
    );
    assert.ok(watches(pending), `client ${this.name}: job ${job.id} is of a watched tube`);
    this.#checkPromise(pending, job);
    this.#give(pending, [job]);
  }

  /** Jobs of a batch, or one shard's part of them. */
  onReservedBatch(jobs: readonly ModelJob[], isPart: boolean): void {
    const ids = jobs.map((job) => job.id).join(" ");
    const matches = (each: Pending): boolean =>
      (isOpenReserve(each) || (isPart && each.isInParts)) &&
      each.command.kind === "reserve" &&
      each.command.batch !== undefined &&
      (!this.#mayBeRefusedUnseen || jobs.every(({ tube }) => watchesOf(each.command).includes(tube.name)));
    const pending = this.#take(`reservation of jobs ${ids}`, matches);
    for (const { id, tube } of jobs) {
      const isWatched = watchesOf(pending.command).includes(tube.name);
      assert.ok(isWatched, `client ${this.name}: job ${id} is of a watched tube`);
    }
    pending.isInParts = isPart;
    this.#give(pending, jobs);
  }

  #give(pending: Pending, jobs: readonly ModelJob[]): void {
    pending.given.push(...jobs.map((job) => ({ job, pri: job.pri, id: job.id, tube: job.tube.name })));
    this.#noteEffect();
  }

  onTouchedAll(shard: number, held: number): void {
    const pending = this.#take(
      "touch-all",
      ({ command, asked }) => command.kind === "touch-all" && !asked.has(shard),
    );
    pending.asked.add(shard);
    pending.held += held;
    this.#noteEffect();
  }

  /**
   * Its reserves over several shards may be refused by its acceptor, and nothing tells before the
   * reply.
   */
  get #mayBeRefusedUnseen(): boolean {
    return this.gone || this.halfClosed || this.stopped;
  }

  onRefused(reply: "TIMED_OUT" | "DEADLINE_SOON" | "ABORTED"): void {
    const pending = this.#take(reply, isOpenReserve);
    if (reply === "TIMED_OUT") this.#checkEnds(pending);
    this.#settle(pending, `${reply}\r\n`);
  }

  onById(name: ByIdCommand, shard: number, id: number, done: boolean, settled: boolean): void {
    const batch = name === "delete" ? this.#batchThatDeletes(shard, id) : undefined;
    if (batch !== undefined) {
      batch.deletes!.note(shard, id, done, settled);
      const changes = this.#world.promises?.lastCall ?? [];
      if (done) batch.promised = [...batch.promised, ...changes.filter((change) => change.id === id)];
      if (batch.deletes!.isDone) this.#noteEffect();
      return;
    }
    // The job has moved on, or all shards are asked: the shard that has it answers.
    if (!done && !settled) return;
    const isMeant = ({ command }: Pending): boolean =>
      command.kind === "by-id" && command.name === name && command.id === id;
    const isNew = (each: Pending): boolean => isMeant(each) && !each.asked.has(shard);
    // A shard may be asked once more: the job was there a moment ago. The same command further
    // behind is not what it is asked for.
    const asksAgain = !done && !this.#mayReach(isNew);
    const pending = this.#take(`${name} ${id}`, asksAgain ? isMeant : isNew);
    pending.asked.add(shard);
    // All shards are asked where the job's is not known: at most one of them has it.
    if (pending.reply !== undefined && !done) return;
    assert.equal(pending.reply, undefined, `client ${this.name}: ${name} ${id} takes effect once`);
    if (done && name === "reserve-job") this.#settle(pending, reserved(this.#model.jobs.get(id)!), id);
    else if (done) this.#settle(pending, DONE[name as keyof typeof DONE], id);
    else this.#allow(pending, NOT_FOUND);
  }

  /** The tube is full to which its update-job was to bring a job. */
  onUpdateRefused(shard: number, id: number): void {
    const pending = this.#take(
      `update-job ${id} that is refused`,
      ({ command, asked }) =>
        command.kind === "by-id" && command.name === "update-job" && command.id === id && !asked.has(shard),
    );
    pending.asked.add(shard);
    this.#settle(pending, "TUBE_FULL\r\n");
  }

  /** The delete-batch that a delete is a part of, unless it is a command of its own. */
  #batchThatDeletes(shard: number, id: number): Pending | undefined {
    const expecting = this.#batchWhere(shard, id, (deletes) => deletes.expects(shard, id));
    if (expecting !== undefined) return expecting;
    const isDelete = ({ command, asked }: Pending): boolean =>
      command.kind === "by-id" && command.name === "delete" && command.id === id && !asked.has(shard);
    // A batch asks once more for a job that it has not found, as it may have moved, or come,
    // meanwhile. A delete behind it can only be meant if the batch was for one shard alone: only
    // then does it take effect before the batch is answered.
    const isDeletePossible = this.#mayReach(isDelete);
    return this.#batchWhere(
      shard,
      id,
      (deletes) => deletes.has(id) && (!isDeletePossible || deletes.shardsAsked > 1),
    );
  }

  #batchWhere(shard: number, id: number, isMeant: (deletes: BatchDeletes) => boolean): Pending | undefined {
    for (const pending of this.#pending.slice(this.#cursor)) {
      const { command, deletes, asked } = pending;
      if (deletes !== undefined && isMeant(deletes))
        return this.#take(`delete-batch with ${id}`, (each) => each === pending);
      const isDelete = command.kind === "by-id" && command.name === "delete" && command.id === id;
      if ((isDelete && !asked.has(shard)) || !this.#canBePassed(pending)) return undefined;
    }
    return undefined;
  }

  onKicked(tube: string, bound: number, count: number): void {
    const pending = this.#take(
      `kick ${bound} of ${tube}`,
      ({ command, reply }) =>
        reply === undefined && command.kind === "kick" && command.tube === tube && command.bound === bound,
    );
    this.#settle(pending, `KICKED ${count}\r\n`, count > 0 ? -1 : 0);
  }

  #allow(pending: Pending, reply: string): void {
    pending.possible.add(reply);
    this.#noteEffect();
  }

  /**
   * A kick-job, pause-tube or clear-tube took effect, and engines do not tell whose; no two clients
   * have the very same one under way. `reply` is undefined where the answer of another shard
   * counts, and not final where another may still do better. False if it is not of this client.
   */
  onAnonymous(matches: (command: Command) => boolean, reply: string | undefined, isFinal: boolean): boolean {
    if (!this.isUnderWay(matches)) return false;
    const pending = this.#take(
      "a kick-job, pause-tube or clear-tube",
      (each) => each.reply === undefined && matches(each.command),
    );
    const { command } = pending;
    // A clear-tube changes many.
    const id = command.kind === "kick-job" ? command.id : command.kind === "clear" ? -1 : 0;
    if (reply !== undefined && isFinal) this.#settle(pending, reply, id);
    else if (reply !== undefined) this.#allow(pending, reply);
    return true;
  }

  /**
   * A job of its move-jobs from one tube to another has moved, or has begun to. False if there is
   * none.
   */
  onMoved(from: string, to: string, isDone: boolean): boolean {
    const pending = this.#pending.find(
      ({ command, reply }) =>
        reply === undefined &&
        command.kind === "move" &&
        command.tube === from &&
        [to, "*"].includes(command.target),
    );
    if (pending === undefined) return false;
    const isPassed = this.#pending.indexOf(pending) < this.#cursor;
    assert.ok(!isPassed, `client ${this.name}: "${pending.command.text}" goes on behind what came after it`);
    if (!isDone) return true;
    pending.moved++;
    pending.promised = [...pending.promised, ...(this.#world.promises?.lastCall ?? [])];
    return true;
  }

  /** What it had under way when it went is over. */
  forgetMoves(): void {
    if (!this.gone) return;
    for (const [at, { command }] of this.#pending.entries())
      if (command.kind === "move") this.#pending[at]!.reply = "over";
  }

  /** Whether such a command is not known to have taken effect. */
  isUnderWay(matches: (command: Command) => boolean): boolean {
    return this.#pending.some((pending) => pending.reply === undefined && matches(pending.command));
  }

  /**
   * Whether some shard may still be asked for such a command: it is not answered, or nothing was
   * since it was.
   */
  mayBeAsked(matches: (command: Command) => boolean): boolean {
    return [...this.#pending, this.#answered].some((each) => each !== undefined && matches(each.command));
  }

  // --- replies -----------------------------------------------------------------------------------

  /**
   * Bytes of replies join the output; they leave with the turn, or when the log has what they
   * promise.
   */
  #onAnsweredBytes(bytes: Uint8Array): void {
    if (this.gone) return;
    const text = Buffer.from(bytes).toString("latin1");
    this.#unsent += text;
    this.#answeredBytes += text.length;
    this.#text += text;
    for (let reply = this.#nextReply(); reply !== undefined; reply = this.#nextReply()) this.#onReply(reply);
  }

  #onSentBytes(bytes: Uint8Array): void {
    if (this.gone) return;
    const text = Buffer.from(bytes).toString("latin1");
    assert.ok(this.#unsent.startsWith(text), `client ${this.name}: what leaves is what was answered`);
    this.#unsent = this.#unsent.slice(text.length);
    this.#sentBytes += text.length;
    while (this.#owing[0] !== undefined && this.#owing[0].endsAt <= this.#sentBytes)
      this.#world.promises?.acknowledge(this.#owing.shift()!.promised);
  }

  /** Cuts the next whole reply off. */
  #nextReply(): string | undefined {
    const bytes = replyBytes(this.#text, 0);
    if (bytes < 0) return undefined;
    const reply = this.#text.slice(0, bytes);
    this.#text = this.#text.slice(bytes);
    return reply;
  }

  #onReply(reply: string): void {
    const pending = this.#pending.shift();
    const shown = JSON.stringify(reply.slice(0, 100));
    if (pending === undefined) this.#fail(`got ${shown} although nothing was asked`);
    this.#answered = pending;
    this.#world.counts.answered(pending.command.text, reply);
    if (this.#world.promises !== undefined && pending.promised.length > 0)
      this.#owing.push({
        endsAt: this.#answeredBytes - this.#text.length,
        promised: pending.promised,
      });
    const isPassed = this.#cursor > 0;
    this.#cursor = Math.max(0, this.#cursor - 1);
    const { command } = pending;
    const asked = `"${command.text}"`;
    this.#settleLate(pending, reply);
    if (command.kind === "set") this.#world.checkSet(command.pattern, command.values);
    if (command.kind === "gather") {
      if (!reply.startsWith("OK ")) this.#fail(`${asked} was answered ${shown}`);
    } else if (pending.listing !== undefined) {
      pending.listing.check(comparable(reply));
    } else if (pending.reply !== undefined) {
      if (reply !== pending.reply)
        this.#fail(
          `${asked} was answered ${shown} instead of ${JSON.stringify(pending.reply.slice(0, 100))}`,
        );
    } else if (command.kind === "reserve") {
      this.#checkRefusal(pending, reply);
      // The next one may have begun a little earlier, but its messages leave after this reply.
      if (!isPassed) this.#noteEffectOfReply();
    } else if (command.kind === "put" && reply === "DRAINING\r\n" && this.#world.isDraining()) {
      if (!isPassed) this.#noteEffectOfReply();
    } else if (!pending.possible.has(comparable(reply))) {
      const legal = [...pending.possible].map((each) => JSON.stringify(each.slice(0, 300)));
      this.#fail(
        `${asked} was answered ${JSON.stringify(comparable(reply).slice(0, 300))}, legal: ${legal.join(" or ") || "nothing yet"}`,
      );
    }
    if (!isPassed) this.noteReads();
  }

  /** What has become of a command in several steps makes its reply. */
  #settleLate(pending: Pending, reply: string): void {
    if (isRefusal(reply) && pending.given.length > 0 && this.#mayBeRefusedUnseen) {
      // The reservation was that of the next reserve: this one had been refused before.
      const next = this.#pending.find(isOpenReserve);
      if (next === undefined) this.#fail(`"${pending.command.text}" was refused instead of a job`);
      next.given = pending.given;
      pending.given = [];
    }
    if (pending.given.length > 0) this.#settleGiven(pending);
    else if (pending.deletes !== undefined) pending.reply = pending.deletes.reply;
    else if (pending.command.kind === "move") pending.reply = `MOVED ${pending.moved}\r\n`;
    else if (pending.command.kind === "touch-all") this.#settleTouches(pending);
    if (reply === "ABORTED\r\n" && pending.reply === "TIMED_OUT\r\n" && this.#mayBeAborted(pending))
      pending.reply = reply;
  }

  /** What the jobs that it was given make its reply. */
  #settleGiven(pending: Pending): void {
    const { command, given } = pending;
    assert.ok(command.kind === "reserve");
    const { batch } = command;
    // On one shard they come in the order in which they were given, which groups may have changed.
    if (pending.isInParts) given.sort((a, b) => a.pri - b.pri || a.id - b.id);
    if (batch === undefined) {
      assert.equal(given.length, 1, `client ${this.name}: "${command.text}" was given one job`);
      pending.reply = reserved(given[0]!.job);
      return;
    }
    assert.ok(given.length <= batch.jobsMax, `client ${this.name}: "${command.text}" got too many jobs`);
    const texts = given.map(({ job, tube }) => reserved(job, batch.tubes ? tube : undefined));
    pending.reply = `RESERVED_BATCH ${given.length}\r\n${texts.join("")}`;
    const bytes = given.reduce((sum, { job }) => sum + job.body.length, 0);
    assert.ok(
      given.length === 1 || bytes <= batch.bytesMax,
      `client ${this.name}: "${command.text}" got ${bytes} bytes of bodies`,
    );
    this.#checkPromise(pending, given.toSorted((a, b) => a.pri - b.pri || a.id - b.id).at(-1));
  }

  /** All its jobs were touched after the command came. */
  #settleTouches(pending: Pending): void {
    const { command, held, arrivedEvent } = pending;
    pending.reply = `TOUCHED_ALL ${held}\r\n`;
    for (const job of this.#model.connections.held(this.#session()))
      assert.ok(
        job.touchedAt > arrivedEvent,
        `client ${this.name}: "${command.text}" has not touched job ${job.id}`,
      );
  }

  /** It has sent something behind a batch that ends so. */
  #mayBeAborted({ command, beginsAt }: Pending): boolean {
    if (command.kind !== "reserve" || command.batch?.mayAbort !== true) return false;
    if (command.timeoutMs === 0) return false;
    return this.saidMore || this.#commandBytes > beginsAt + command.bytes.length;
  }

  #noteEffectOfReply(): void {
    for (const later of this.#pending) later.arrivedEvent = this.#model.event;
  }

  /** A reserve without a wait must not miss a job whose holder had left before. */
  #checkEnds({ command, sentAt }: Pending): void {
    assert.ok(command.kind === "reserve");
    if (command.timeoutMs > 0 || this.#mayBeRefusedUnseen) return;
    for (const { id, tube, holder, state } of this.#model.jobs.values()) {
      if (state !== "reserved" || holder === undefined || tube.pausedUntilMs !== undefined) continue;
      if (!command.watched.includes(tube.name)) continue;
      assert.ok(
        this.#world.closedAt(holder.index, this.acceptor) > sentAt,
        `client ${this.name}: "${command.text}" was refused although the holder of job ${id} had gone before`,
      );
    }
  }

  /** Whether a reserve over several shards could be refused like this. */
  #checkRefusal(pending: Pending, reply: string): void {
    const { command } = pending;
    assert.ok(command.kind === "reserve");
    const what = `client ${this.name}: "${command.text}" was answered ${JSON.stringify(reply)}`;
    const session = this.#session();
    if (reply === "ABORTED\r\n") {
      assert.ok(this.#mayBeAborted(pending), `${what}, and said nothing behind it`);
    } else if (reply === "DEADLINE_SOON\r\n") {
      const expired = session.expiredAt > pending.arrivedEvent;
      assert.ok(
        expired || this.#model.connections.inMargin(session, this.#nowMs()),
        `${what} without a reservation in its margin`,
      );
    } else {
      assert.equal(reply, "TIMED_OUT\r\n", what);
      this.#checkEnds(pending);
      // The same sum that the server makes: a difference would be rounded otherwise.
      const isOver = this.#nowMs() >= pending.arrivedAtMs + command.timeoutMs;
      assert.ok(
        this.halfClosed || this.stopped || isOver,
        `${what} after ${this.#nowMs() - pending.arrivedAtMs} ms`,
      );
      // What the client holds now it held then, with the same deadline: nothing of its own came in
      // between.
      const wasInMargin = this.#model.connections.inMargin(session, pending.arrivedAtMs);
      assert.ok(!wasInMargin, `${what} although it held a job in its last second when it asked`);
    }
    assert.equal(session.openWait, 0, `${what} while shards may still end the wait`);
    this.#checkPromise(pending, undefined);
  }

  /**
   * No job that was ready when the reserve arrived, and stayed so, is passed over for a worse one,
   * or for none.
   */
  #checkPromise(pending: Pending, given: Pick<ModelJob, "id" | "pri"> | undefined): void {
    const { command } = pending;
    assert.ok(command.kind === "reserve");
    const arrived = pending.arrivedEvent;
    for (const job of this.#model.jobs.values()) {
      const { tube } = job;
      const stayedReady =
        job.state === "ready" &&
        job.readySince < arrived &&
        tube.pausedUntilMs === undefined &&
        tube.unpausedSince < arrived &&
        !tube.wasLimited &&
        command.watched.includes(tube.name);
      if (!stayedReady || (given !== undefined && isBetter(given, job))) continue;
      this.#fail(
        `"${command.text}" passed job ${job.id} over for ${given === undefined ? "none" : `job ${given.id}`}`,
      );
    }
  }

  #onEnding(): void {
    if (this.gone) return;
    if (this.stopped) {
      this.over = true;
      return;
    }
    assert.ok(this.halfClosed || this.quits, `client ${this.name}: the server closed the connection`);
    assert.equal(this.#pending.length, 0, `client ${this.name}: closed before "${this.oldest}" was answered`);
    assert.equal(this.#unsent, "", `client ${this.name}: closed before all replies had left`);
    this.over = true;
  }

  // --- rest --------------------------------------------------------------------------------------

  /**
   * At rest, with all replies read, a client has its answers but for a reserve that waits for good
   * reason.
   */
  checkRest(shards: number): void {
    if (this.gone || this.over) return;
    assert.equal(this.#unsent, "", `client ${this.name}: all that was answered has left`);
    const isUnseen = this.halfClosed && !this.socket.isEndSeen;
    if (this.socket.isPaused) this.#checkPause();
    else assert.ok(!isUnseen, `client ${this.name}: its end is seen`);
    const mayBeOpen = (!this.halfClosed || isUnseen) && !this.quits && !this.stopped;
    assert.ok(mayBeOpen, `client ${this.name}: its connection is closed`);
    const pending = this.#pending[0];
    if (pending === undefined) return;
    const { command } = pending;
    if (this.#mayBeAborted(pending) && !this.socket.isPaused)
      this.#fail(`"${command.text}" waits on although something was said behind it`);
    if (command.kind !== "reserve" || pending.reply !== undefined || pending.given.length > 0)
      this.#fail(
        `"${command.text}" is never answered${pending.reply === undefined ? "" : ", though it took effect"}`,
      );
    const session = this.#session();
    const waits = this.#model.waits.filter((wait) => wait.session === session);
    const isWaiting = waits.some((wait) => wait.number === undefined || wait.number === session.openWait);
    assert.ok(isWaiting, `client ${this.name}: "${command.text}" is not answered and waits nowhere`);
    assert.equal(
      this.#model.queues.bestReady(this.#tubes(command.watched), this.#nowMs()),
      undefined,
      `client ${this.name}: waits in vain`,
    );
    assert.ok(
      !this.#model.connections.inMargin(session, this.#nowMs()),
      `client ${this.name}: waits on in the margin`,
    );
    const waitedMs = this.#nowMs() - pending.sentAtMs;
    const startedMs = pending.arrivedAtMs;
    // It may have begun later than its bytes came: each shard counts from when it saw it.
    const latestMs = Math.max(
      startedMs,
      ...waits.map((wait) => wait.timeoutAtMs - command.timeoutMs).filter(Number.isFinite),
    );
    assert.ok(
      this.#nowMs() < latestMs + command.timeoutMs,
      `client ${this.name}: waits on after ${waitedMs} ms`,
    );
    for (let shard = 0; shard < shards; shard++) {
      const watchesThere: boolean = command.watched.some((name) => this.#shardOf(name) === shard);
      const waitsThere = waits.some((wait) => wait.shard === shard);
      assert.ok(
        waitsThere || !watchesThere,
        `client ${this.name}: waits on shard ${shard}, where it watches a tube`,
      );
    }
  }

  /**
   * At rest input is left unread only behind a reserve that waits, and only if it is more than the
   * server keeps for it.
   */
  #checkPause(): void {
    const first = this.#pending[0];
    if (first?.command.kind !== "reserve") this.#fail("at rest, and yet nothing is read from it");
    const keptBytes = this.socket.deliveredBytes - first.beginsAt - first.command.bytes.length;
    assert.ok(
      keptBytes >= WAITING_INPUT_BYTES_MAX,
      `client ${this.name}: not read any more after ${keptBytes} bytes behind a reserve`,
    );
  }

  #shardOf(tube: string): number | undefined {
    return this.#model.tubes.get(tube)?.shard;
  }

  *#tubes(names: readonly string[]): Generator<NonNullable<ReturnType<Model["tubes"]["get"]>>> {
    for (const name of names) {
      const tube = this.#model.tubes.get(name);
      if (tube !== undefined) yield tube;
    }
  }
}

const isRefusal = (reply: string): boolean =>
  ["TIMED_OUT\r\n", "DEADLINE_SOON\r\n", "ABORTED\r\n"].includes(reply);

const isOpenReserve = (pending: Pending): boolean =>
  pending.reply === undefined && pending.given.length === 0 && pending.command.kind === "reserve";

const watchesOf = (command: Command): readonly string[] =>
  command.kind === "reserve" ? command.watched : [];

/** Where the reply ends that begins at `at` of a text, or -1 if it is not all there. */
function replyBytes(text: string, at: number): number {
  const lineEnd = text.indexOf("\r\n", at);
  if (lineEnd < 0) return -1;
  const head = text.slice(at, lineEnd);
  const [, jobs] = /^RESERVED_BATCH (\d+)$/.exec(head) ?? [];
  let end = lineEnd + 2;
  if (jobs !== undefined) {
    for (let left = Number(jobs); left > 0 && end >= 0; left--) end = replyBytes(text, end);
    return end;
  }
  const body = /^(?:RESERVED \d+ (\d+)(?: .*)?|FOUND \d+ (\d+)|OK (\d+))$/.exec(head);
  if (body !== null) end += Number(body[1] ?? body[2] ?? body[3]) + 2;
  return text.length < end ? -1 : end;
}
