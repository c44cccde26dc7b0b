// Promises of a reserve: which refusals are allowed, and which jobs it must not pass over.

import assert from "node:assert/strict";
import { isBetter } from "../model/job-order.ts";
import type { ModelJob, Wait } from "../model/model-types.ts";
import type { Pending, PendingCommands } from "./pending-commands.ts";

export class ClientPromises {
  readonly #client: PendingCommands;

  constructor(client: PendingCommands) {
    this.#client = client;
  }

  /** It has sent something behind a batch that ends so. */
  mayBeAborted({ command, beginsAt }: Pending): boolean {
    if (command.kind !== "reserve" || command.batch?.mayAbort !== true) return false;
    if (command.timeoutMs === 0) return false;
    return this.#client.saidMore || this.#client.commandBytes > beginsAt + command.bytes.length;
  }

  /** A reserve without a wait must not miss a job whose holder had left before. */
  checkEnds({ command, sentAt }: Pending): void {
    assert.ok(command.kind === "reserve");
    if (command.timeoutMs > 0 || this.#client.mayBeRefusedUnseen) return;
    for (const { id, tube, holder, state } of this.#client.model.jobs.values()) {
      if (state !== "reserved" || holder === undefined || tube.pausedUntilMs !== undefined) continue;
      if (!command.watched.includes(tube.name)) continue;
      assert.ok(
        this.#client.world.closedAt(holder.index, this.#client.acceptor) > sentAt,
        `client ${this.#client.name}: "${command.text}" was refused although the holder of job ${id} had gone before`,
      );
    }
  }

  /** Returns whether a reserve over several shards could be refused like this. */
  checkRefusal(pending: Pending, reply: string): void {
    const { command } = pending;
    assert.ok(command.kind === "reserve");
    const what = `client ${this.#client.name}: "${command.text}" was answered ${JSON.stringify(reply)}`;
    const session = this.#client.modelSession();
    if (reply === "ABORTED\r\n") {
      assert.ok(this.mayBeAborted(pending), `${what}, and said nothing behind it`);
    } else if (reply === "DEADLINE_SOON\r\n") {
      const expired = session.expiredAt > pending.arrivedEvent;
      assert.ok(
        expired || this.#client.model.connections.inMargin(session, this.#client.nowMs()),
        `${what} without a reservation in its margin`,
      );
    } else {
      assert.equal(reply, "TIMED_OUT\r\n", what);
      this.checkEnds(pending);
      // The same sum that the server makes: a difference would be rounded otherwise.
      const isOver = this.#client.nowMs() >= pending.arrivedAtMs + command.timeoutMs;
      assert.ok(
        this.#client.halfClosed || this.#client.stopped || isOver,
        `${what} after ${this.#client.nowMs() - pending.arrivedAtMs} ms`,
      );
      // The client held the same jobs then, with the same deadlines: nothing of its own came in
      // between.
      const wasInMargin = this.#client.model.connections.inMargin(session, pending.arrivedAtMs);
      assert.ok(!wasInMargin, `${what} although it held a job in its last second when it asked`);
    }
    assert.equal(session.openWait, 0, `${what} while shards may still end the wait`);
    // A batch that waits until it is full leaves jobs that are ready meanwhile.
    const leavesJobs = reply === "ABORTED\r\n" || this.#client.halfClosed || this.#client.stopped;
    if (!leavesJobs || (command.batch?.min ?? 1) === 1) this.checkPromise(pending, undefined);
  }

  /** At rest, a batch that waits until it is full lacks jobs; if some are ready, its time runs. */
  checkFilling({ command }: Pending, waits: readonly Wait[], shards: number): void {
    assert.ok(command.kind === "reserve" && command.batch !== undefined);
    const { min = 1, linger = Number.POSITIVE_INFINITY, jobsMax } = command.batch;
    const { model } = this.#client;
    const nowMs = this.#client.nowMs();
    let ready = 0;
    for (let shard = 0; shard < shards; shard++)
      ready += model.waiting.readyFor(this.#client.modelSession(), shard, nowMs);
    const what = `client ${this.#client.name}: "${command.text}" waits with ${ready} ready jobs`;
    assert.ok(ready < Math.min(min, jobsMax), what);
    const endsAtMs = Math.min(...waits.map(({ timeoutAtMs }) => timeoutAtMs));
    assert.ok(ready === 0 || endsAtMs <= nowMs + linger * 1000, `${what} and no end of its linger`);
  }

  /** A batch that waits until it is full has its jobs, unless its time is over. */
  checkFull(pending: Pending): void {
    const { command, given, isInParts, arrivedAtMs, arrivedEvent } = pending;
    assert.ok(command.kind === "reserve" && command.batch !== undefined);
    const { min = 1, linger = Number.POSITIVE_INFINITY, jobsMax, bytesMax, oneGroup } = command.batch;
    if (oneGroup === true) return;
    const { model } = this.#client;
    const session = this.#client.modelSession();
    const nowMs = this.#client.nowMs();
    if (given.length >= Math.min(min, jobsMax) || isInParts || Number.isFinite(bytesMax)) return;
    if (nowMs >= arrivedAtMs + Math.min(linger * 1000, command.timeoutMs)) return;
    if (session.expiredAt > arrivedEvent || model.connections.inMargin(session, nowMs)) return;
    const cuts = ({ tube, state, reserves, releases, buries }: ModelJob): boolean =>
      tube.groups !== undefined ||
      tube.wasLimited ||
      reserves - (state === "reserved" ? 1 : 0) > releases + buries;
    const watched = [...model.jobs.values()].filter(({ tube }) => command.watched.includes(tube.name));
    if (this.mayBeAborted(pending) || this.#client.halfClosed || watched.some(cuts)) return;
    this.#client.fail(`"${command.text}" got ${given.length} jobs after ${nowMs - arrivedAtMs} ms`);
  }

  /** Returns whether the given job may go before one that stays ready, by the client's order. */
  #goesBefore({ command }: Pending, given: Pick<ModelJob, "id" | "pri">, other: ModelJob): boolean {
    const { turns } = this.#client.modelSession();
    if (command.kind !== "reserve" || command.order === "strict" || turns === undefined)
      return isBetter(given, other);
    const place = turns.placeOf.get(given.id);
    // By time, or after a wait, the engine's calls have shown it.
    if (command.order === "weighted-time" || place === undefined || command.batch !== undefined) return true;
    const tube = this.#client.model.jobs.get(given.id)?.tube;
    const turn = turns.turnNow(other.tube);
    return place < turn || (place === turn && isBetter(given, other)) || tube === other.tube;
  }

  /**
   * No job that was ready when the reserve arrived, and stayed so, is passed over for a worse one,
   * or for none.
   */
  checkPromise(pending: Pending, given: Pick<ModelJob, "id" | "pri"> | undefined): void {
    const { command } = pending;
    assert.ok(command.kind === "reserve");
    const arrived = pending.arrivedEvent;
    for (const job of this.#client.model.jobs.values()) {
      const { tube } = job;
      const stayedReady =
        job.state === "ready" &&
        job.readySince < arrived &&
        tube.pausedUntilMs === undefined &&
        tube.unpausedSince < arrived &&
        !tube.wasLimited &&
        command.watched.includes(tube.name);
      if (!stayedReady || (given !== undefined && this.#goesBefore(pending, given, job))) continue;
      this.#client.fail(
        `"${command.text}" passed job ${job.id} over for ${given === undefined ? "none" : `job ${given.id}`}`,
      );
    }
  }
}
