// Replies to a client: cut from the bytes, compared with what each command may get, and
// acknowledged when their bytes leave.

import assert from "node:assert/strict";
import type { OwedChange } from "../model/durability-ledger.ts";
import type { ClientPromises } from "./client-promises.ts";
import { comparable, reserved } from "./model-replies.ts";
import { isOpenReserve, type Pending, type PendingCommands } from "./pending-commands.ts";

/** A reply that may still be held back. */
interface Owing {
  /** Position behind it among all bytes of replies. */
  readonly endsAt: number;
  readonly promised: readonly OwedChange[];
}

/** Parts of the client that this file uses. */
interface SimClient extends PendingCommands {
  readonly promises: ClientPromises;
}

export class ClientReplies {
  readonly #client: SimClient;
  #text = "";
  #answeredBytes = 0;
  #sentBytes = 0;
  readonly #owing: Owing[] = [];

  constructor(client: SimClient) {
    this.#client = client;
  }

  /**
   * Bytes of replies join the output; they leave with the turn, or when the log has what they
   * promise.
   */
  onAnsweredBytes(bytes: Uint8Array): void {
    if (this.#client.gone) return;
    const text = Buffer.from(bytes).toString("latin1");
    this.#client.unsent += text;
    this.#answeredBytes += text.length;
    this.#text += text;
    for (let reply = this.#nextReply(); reply !== undefined; reply = this.#nextReply()) this.#onReply(reply);
  }

  onSentBytes(bytes: Uint8Array): void {
    if (this.#client.gone) return;
    const text = Buffer.from(bytes).toString("latin1");
    assert.ok(
      this.#client.unsent.startsWith(text),
      `client ${this.#client.name}: what leaves is what was answered`,
    );
    this.#client.unsent = this.#client.unsent.slice(text.length);
    this.#sentBytes += text.length;
    while (this.#owing[0] !== undefined && this.#owing[0].endsAt <= this.#sentBytes)
      this.#client.world.promises?.acknowledge(this.#owing.shift()!.promised);
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
    const pending = this.#client.pending.shift();
    const shown = JSON.stringify(reply.slice(0, 100));
    if (pending === undefined) this.#client.fail(`got ${shown} although nothing was asked`);
    this.#client.answered = pending;
    this.#client.world.counts.answered(pending.command.text, reply);
    if (this.#client.world.promises !== undefined && pending.promised.length > 0)
      this.#owing.push({
        endsAt: this.#answeredBytes - this.#text.length,
        promised: pending.promised,
      });
    const isPassed = this.#client.cursor > 0;
    this.#client.cursor = Math.max(0, this.#client.cursor - 1);
    const { command } = pending;
    const asked = `"${command.text}"`;
    this.#settleLate(pending, reply);
    if (command.kind === "set") this.#client.world.checkSet(command.pattern, command.values);
    if (command.kind === "run" && pending.reply === undefined) {
      if (!command.refusals.test(reply)) this.#client.fail(`${asked} was answered ${shown} and put nothing`);
    } else if (command.kind === "gather") {
      if (!command.form.test(reply)) this.#client.fail(`${asked} was answered ${shown}`);
    } else if (pending.listing !== undefined) {
      pending.listing.check(comparable(reply));
    } else if (pending.reply !== undefined) {
      if (reply !== pending.reply)
        this.#client.fail(
          `${asked} was answered ${shown} instead of ${JSON.stringify(pending.reply.slice(0, 100))}`,
        );
    } else if (command.kind === "reserve") {
      this.#client.promises.checkRefusal(pending, reply);
      // The next one may have begun a little earlier, but its messages leave after this reply.
      if (!isPassed) this.#noteEffectOfReply();
    } else if (command.kind === "put" && reply === "DRAINING\r\n" && this.#client.world.isDraining()) {
      if (!isPassed) this.#noteEffectOfReply();
    } else if (!pending.possible.has(comparable(reply))) {
      const legal = [...pending.possible].map((each) => JSON.stringify(each.slice(0, 300)));
      this.#client.fail(
        `${asked} was answered ${JSON.stringify(comparable(reply).slice(0, 300))}, legal: ${legal.join(" or ") || "nothing yet"}`,
      );
    }
    if (!isPassed) this.#client.noteReads();
  }

  /** Settles the reply of a command that takes effect in several steps. */
  #settleLate(pending: Pending, reply: string): void {
    if (isRefusal(reply) && pending.given.length > 0 && this.#client.mayBeRefusedUnseen) {
      // The reservation was that of the next reserve: this one had been refused before.
      const next = this.#client.pending.find(isOpenReserve);
      if (next === undefined) this.#client.fail(`"${pending.command.text}" was refused instead of a job`);
      next.given = pending.given;
      pending.given = [];
    }
    if (pending.given.length > 0) this.#settleGiven(pending);
    else if (pending.deletes !== undefined) pending.reply = pending.deletes.reply;
    else if (pending.command.kind === "move") pending.reply = `MOVED ${pending.moved}\r\n`;
    else if (pending.command.kind === "touch-all") this.#settleTouches(pending);
    if (
      reply === "ABORTED\r\n" &&
      pending.reply === "TIMED_OUT\r\n" &&
      this.#client.promises.mayBeAborted(pending)
    )
      pending.reply = reply;
  }

  /** Settles the reply from the jobs that it was given. */
  #settleGiven(pending: Pending): void {
    const { command, given } = pending;
    assert.ok(command.kind === "reserve");
    const { batch } = command;
    // On one shard they come in the order in which they were given, which groups may have changed.
    if (pending.isInParts) {
      const listed = this.#client.modelSession().turns?.listed;
      const placeOf = (id: number): number => (command.order === "strict" ? 0 : (listed?.get(id) ?? 0));
      given.sort((a, b) => placeOf(a.id) - placeOf(b.id) || a.pri - b.pri || a.id - b.id);
    }
    if (batch === undefined) {
      assert.equal(given.length, 1, `client ${this.#client.name}: "${command.text}" was given one job`);
      pending.reply = reserved(given[0]!.job);
      return;
    }
    assert.ok(
      given.length <= batch.jobsMax,
      `client ${this.#client.name}: "${command.text}" got too many jobs`,
    );
    const texts = given.map(({ job, tube }) => reserved(job, batch.tubes ? tube : undefined));
    pending.reply = `RESERVED_BATCH ${given.length}\r\n${texts.join("")}`;
    const bytes = given.reduce((sum, { job }) => sum + job.body.length, 0);
    assert.ok(
      given.length === 1 || bytes <= batch.bytesMax,
      `client ${this.#client.name}: "${command.text}" got ${bytes} bytes of bodies`,
    );
    this.#client.promises.checkFull(pending);
    if (batch.oneGroup === true) {
      // Jobs of its group go before those of others, but the first is the best of all.
      const groups = new Set(given.map(({ job, tube }) => `${tube} ${job.policy.group}`));
      assert.equal(groups.size, 1, `client ${this.#client.name}: "${command.text}" got ${[...groups]}`);
      this.#client.promises.checkPromise(pending, given[0]);
      return;
    }
    this.#client.promises.checkPromise(
      pending,
      given.toSorted((a, b) => a.pri - b.pri || a.id - b.id).at(-1),
    );
  }

  /** All its jobs were touched after the command came. */
  #settleTouches(pending: Pending): void {
    const { command, held, arrivedEvent } = pending;
    pending.reply = `TOUCHED_ALL ${held}\r\n`;
    for (const job of this.#client.model.connections.held(this.#client.modelSession()))
      assert.ok(
        job.touchedAt > arrivedEvent,
        `client ${this.#client.name}: "${command.text}" has not touched job ${job.id}`,
      );
  }

  #noteEffectOfReply(): void {
    for (const later of this.#client.pending) later.arrivedEvent = this.#client.model.event;
  }
}

const isRefusal = (reply: string): boolean =>
  ["TIMED_OUT\r\n", "DEADLINE_SOON\r\n", "ABORTED\r\n"].includes(reply);

/** Returns where the reply that begins at `at` ends, or -1 if it is incomplete. */
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
