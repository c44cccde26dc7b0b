// Effects of a client's commands: the command that an engine's call belongs to, and the reply that
// it must get.

import assert from "node:assert/strict";
import type { PutOptions } from "../model/model-policies.ts";
import type { ModelJob } from "../model/model-types.ts";
import type { ByIdCommand } from "../witness/command-sink.ts";
import type { BatchDeletes } from "./batch-deletes.ts";
import type { ClientPromises } from "./client-promises.ts";
import type { Command } from "./command.ts";
import { reserved } from "./model-replies.ts";
import { isOpenReserve, NOT_FOUND, type Pending, type PendingCommands } from "./pending-commands.ts";

const DONE: Readonly<Record<Exclude<ByIdCommand, "reserve-job">, string>> = {
  delete: "DELETED\r\n",
  release: "RELEASED\r\n",
  bury: "BURIED\r\n",
  touch: "TOUCHED\r\n",
  "touch-job": "TOUCHED\r\n",
  "update-job": "UPDATED\r\n",
};

/** Returns the commands that call the same method of an engine. */
const namesOf = (name: ByIdCommand): readonly ByIdCommand[] =>
  name === "touch" ? ["touch", "touch-job"] : [name];

/** Parts of the client that this file uses. */
interface SimClient extends PendingCommands {
  readonly promises: ClientPromises;
}

export class ClientEffects {
  readonly #client: SimClient;

  constructor(client: SimClient) {
    this.#client = client;
  }

  onPut(job: ModelJob): void {
    assert.ok(
      !this.#client.world.isDraining(),
      `client ${this.#client.name}: job ${job.id} is put although the server drains`,
    );
    assert.ok(
      !this.#client.world.isFull(),
      `client ${this.#client.name}: job ${job.id} is put although the log is full`,
    );
    const pending = this.#client.take(
      `put of job ${job.id}`,
      ({ command, reply }) => reply === undefined && command.kind === "put",
    );
    const { command } = pending;
    assert.ok(command.kind === "put");
    assert.deepEqual(
      [job.tube.name, job.pri, job.delaySeconds, job.ttrSeconds, job.body],
      [command.tube, command.pri, command.delaySeconds, command.ttrSeconds, command.body],
      `client ${this.#client.name}: what "${command.text}" has put`,
    );
    this.#checkOptions(pending, command.options, job);
    assert.ok(job.id > this.#client.lastPutId, `client ${this.#client.name}: ids grow`);
    this.#client.lastPutId = job.id;
    this.#client.settle(pending, `INSERTED ${job.id}\r\n`, job.id);
  }

  /** The job has the options of its put; times count from some moment since that was sent. */
  #checkOptions({ sentAtMs }: Pending, options: PutOptions, { policy, tube }: ModelJob): void {
    const { key, untilReserve, keyForMs, ttlMs, group, weight, cost } = options;
    assert.deepEqual(
      [policy.key, policy.untilReserve, policy.group, policy.weight, policy.cost],
      [key, untilReserve, group, weight, cost],
      `client ${this.#client.name}: options of its put`,
    );
    const counts = (untilMs: number, forMs: number): boolean =>
      forMs === 0 ? untilMs === 0 : untilMs >= sentAtMs + forMs && untilMs <= this.#client.nowMs() + forMs;
    const livesMs = ttlMs === 0 ? tube.resolved.values.ttlMs : ttlMs;
    assert.ok(counts(policy.keyUntilMs, keyForMs), `client ${this.#client.name}: until when its key lasts`);
    assert.ok(counts(policy.expiresAtMs, livesMs), `client ${this.#client.name}: until when its job lives`);
  }

  /** Its key is taken, or its tube is full. */
  onPutDeclined(reply: string): void {
    assert.ok(
      !this.#client.world.isDraining(),
      `client ${this.#client.name}: a put is judged although the server drains`,
    );
    const pending = this.#client.take(
      `a put that is answered ${reply}`,
      ({ command, reply: known }) => known === undefined && command.kind === "put",
    );
    this.#client.settle(pending, reply);
  }

  /** The log had no room for it. */
  onPutRefused(): void {
    assert.ok(
      this.#client.world.isFull(),
      `client ${this.#client.name}: a put is refused although the log has room`,
    );
    const pending = this.#client.take(
      "a refused put",
      ({ command, reply }) => reply === undefined && command.kind === "put",
    );
    this.#client.settle(pending, "OUT_OF_MEMORY\r\n");
  }

  onReserved(job: ModelJob): void {
    const watches = ({ command }: Pending): boolean =>
      command.kind === "reserve" && command.watched.includes(job.tube.name);
    const pending = this.#client.take(
      `reservation of job ${job.id}`,
      (each) => isOpenReserve(each) && (!this.#client.mayBeRefusedUnseen || watches(each)),
    );
    assert.ok(watches(pending), `client ${this.#client.name}: job ${job.id} is of a watched tube`);
    this.#client.promises.checkPromise(pending, job);
    this.#give(pending, [job]);
  }

  /** Jobs of a batch, or one shard's part of them. */
  onReservedBatch(jobs: readonly ModelJob[], isPart: boolean): void {
    const ids = jobs.map((job) => job.id).join(" ");
    const matches = (each: Pending): boolean =>
      (isOpenReserve(each) || (isPart && each.isInParts)) &&
      each.command.kind === "reserve" &&
      each.command.batch !== undefined &&
      (!this.#client.mayBeRefusedUnseen ||
        jobs.every(({ tube }) => watchesOf(each.command).includes(tube.name)));
    const pending = this.#client.take(`reservation of jobs ${ids}`, matches);
    for (const { id, tube } of jobs) {
      const isWatched = watchesOf(pending.command).includes(tube.name);
      assert.ok(isWatched, `client ${this.#client.name}: job ${id} is of a watched tube`);
    }
    pending.isInParts = isPart;
    this.#give(pending, jobs);
  }

  #give(pending: Pending, jobs: readonly ModelJob[]): void {
    pending.given.push(...jobs.map((job) => ({ job, pri: job.pri, id: job.id, tube: job.tube.name })));
    this.#client.noteEffect();
  }

  onTouchedAll(shard: number, held: number): void {
    const pending = this.#client.take(
      "touch-all",
      ({ command, asked }) => command.kind === "touch-all" && !asked.has(shard),
    );
    pending.asked.add(shard);
    pending.held += held;
    this.#client.noteEffect();
  }

  onRefused(reply: "TIMED_OUT" | "DEADLINE_SOON" | "ABORTED"): void {
    const pending = this.#client.take(reply, isOpenReserve);
    if (reply === "TIMED_OUT") this.#client.promises.checkEnds(pending);
    this.#client.settle(pending, `${reply}\r\n`);
  }

  /** `isSought` is true for "not found" on a shard whose acceptor now looks for the job. */
  onById(
    name: ByIdCommand,
    shard: number,
    id: number,
    { done, settled, isSought }: { done: boolean; settled: boolean; isSought: boolean },
  ): void {
    const batch = name === "delete" ? this.#batchThatDeletes(shard, id) : undefined;
    if (batch !== undefined) {
      batch.deletes!.note(shard, id, done, settled);
      const changes = this.#client.world.promises?.lastCall ?? [];
      if (done) batch.promised = [...batch.promised, ...changes.filter((change) => change.id === id)];
      if (batch.deletes!.isDone) this.#client.noteEffect();
      return;
    }
    // The shard's answer is not the reply: its acceptor asks this shard or another one again.
    if (isSought) return;
    const pending = this.#client.take(
      `${name} ${id}`,
      ({ command, reply }) =>
        reply === undefined &&
        command.kind === "by-id" &&
        namesOf(name).includes(command.name) &&
        command.id === id,
    );
    if (!done) {
      assert.ok(settled, `client ${this.#client.name}: NOT_FOUND to ${name} ${id}, which is elsewhere`);
      this.#client.settle(pending, NOT_FOUND);
    } else if (name === "reserve-job")
      this.#client.settle(pending, reserved(this.#client.model.jobs.get(id)!), id);
    else this.#client.settle(pending, this.#touched(pending, id) ?? DONE[name], id);
  }

  /** Returns the reply to a touch-job of a job that was cancelled. */
  #touched({ command }: Pending, id: number): string | undefined {
    const reason = this.#client.model.jobs.get(id)?.policy.cancelled;
    if (command.kind !== "by-id" || command.name !== "touch-job" || reason === undefined) return undefined;
    return `TOUCHED cancelled=${reason.replaceAll(" ", "%20")}\r\n`;
  }

  /** The tube is full to which its update-job was to bring a job. */
  onUpdateRefused(id: number): void {
    const pending = this.#client.take(
      `update-job ${id} that is refused`,
      ({ command, reply }) =>
        reply === undefined && command.kind === "by-id" && command.name === "update-job" && command.id === id,
    );
    this.#client.settle(pending, "TUBE_FULL\r\n");
  }

  /** The delete-batch that a delete is a part of, unless it is a command of its own. */
  #batchThatDeletes(shard: number, id: number): Pending | undefined {
    const expecting = this.#batchWhere(id, (deletes) => deletes.expects(shard, id));
    if (expecting !== undefined) return expecting;
    const isDelete = ({ command, reply }: Pending): boolean =>
      reply === undefined && command.kind === "by-id" && command.name === "delete" && command.id === id;
    // A batch asks once more for a job that it has not found, as it may have moved, or come,
    // meanwhile. A delete behind it can only be meant if the batch was for one shard alone: only
    // then does it take effect before the batch is answered.
    const isDeletePossible = this.#client.mayReach(isDelete);
    return this.#batchWhere(
      id,
      (deletes) => deletes.has(id) && (!isDeletePossible || deletes.shardsAsked > 1),
    );
  }

  #batchWhere(id: number, isMeant: (deletes: BatchDeletes) => boolean): Pending | undefined {
    for (const pending of this.#client.pending.slice(this.#client.cursor)) {
      const { command, deletes, reply } = pending;
      if (deletes !== undefined && isMeant(deletes))
        return this.#client.take(`delete-batch with ${id}`, (each) => each === pending);
      const isDelete = command.kind === "by-id" && command.name === "delete" && command.id === id;
      if ((isDelete && reply === undefined) || !this.#client.canBePassed(pending)) return undefined;
    }
    return undefined;
  }

  onKicked(tube: string, bound: number, count: number): void {
    const pending = this.#client.take(
      `kick ${bound} of ${tube}`,
      ({ command, reply }) =>
        reply === undefined && command.kind === "kick" && command.tube === tube && command.bound === bound,
    );
    this.#client.settle(pending, `KICKED ${count}\r\n`, count > 0 ? -1 : 0);
  }

  #allow(pending: Pending, reply: string): void {
    pending.possible.add(reply);
    this.#client.noteEffect();
  }

  /**
   * A kick-job, cancel-job, pause-tube, clear-tube or run-schedule took effect, and engines do not
   * tell whose; no two clients have the very same one under way. `reply` is undefined where the
   * answer of another shard counts, and not final where another may still do better. False if it is
   * not of this client.
   */
  onAnonymous(matches: (command: Command) => boolean, reply: string | undefined, isFinal: boolean): boolean {
    if (!this.#client.isUnderWay(matches)) return false;
    const pending = this.#client.take(
      "a kick-job, cancel-job, pause-tube, clear-tube or run-schedule",
      (each) => each.reply === undefined && matches(each.command),
    );
    const { command } = pending;
    // A clear-tube changes many; what a run-schedule changes is nothing but its new job.
    const changesAll = command.kind === "clear" || command.kind === "run";
    const id =
      command.kind === "kick-job" || command.kind === "cancel-job" ? command.id : changesAll ? -1 : 0;
    if (reply !== undefined && isFinal) this.#client.settle(pending, reply, id);
    else if (reply !== undefined) this.#allow(pending, reply);
    return true;
  }

  /**
   * A job of its move-jobs from one tube to another has moved, or has begun to. False if there is
   * none.
   */
  onMoved(from: string, to: string, isDone: boolean): boolean {
    const pending = this.#client.pending.find(
      ({ command, reply }) =>
        reply === undefined &&
        command.kind === "move" &&
        command.tube === from &&
        [to, "*"].includes(command.target),
    );
    if (pending === undefined) return false;
    const isPassed = this.#client.pending.indexOf(pending) < this.#client.cursor;
    assert.ok(
      !isPassed,
      `client ${this.#client.name}: "${pending.command.text}" goes on behind what came after it`,
    );
    if (!isDone) return true;
    pending.moved++;
    pending.promised = [...pending.promised, ...(this.#client.world.promises?.lastCall ?? [])];
    return true;
  }
}

const watchesOf = (command: Command): readonly string[] =>
  command.kind === "reserve" ? command.watched : [];
