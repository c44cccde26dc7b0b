// A shard's claims to names of schedules. Only one shard at a time sets a schedule of a name,
// whichever shard has the present one. docs/architecture/flows.md explains why exactly one remains.
//
// Claims are numbered over all shards when they begin. A shard that is asked answers at once,
// unless it knows of a claim to this name with a smaller number, its own or one that froze its
// schedule: then it answers when that has ended. So of two claims, the later one ends last, and
// finds what the first one has set.

import { assert } from "../../base/assert.ts";
import { asciiBytes, copyBytes, Memory } from "../../base/bytes.ts";
import type { Schedule, ScheduleProgress, Schedules, Timing } from "../../engine/schedules.ts";
import type { ReplyPort } from "../../message/response.ts";
import { readSchedule, writeProgress, writeSchedule } from "../../message/schedule-record.ts";
import {
  CLAIM_HEADER_BYTES,
  ClaimView,
  END_CLAIM_HEADER_BYTES,
  EndClaimView,
  TransferMessage,
  YIELD_HEADER_BYTES,
  YieldView,
} from "../../message/transfer.ts";
import { ATTRIBUTE_BYTES_MAX, AttributeWriter } from "../../protocol/job-attribute.ts";
import type { Span } from "../../protocol/request.ts";

/** A schedule as another shard, or this one, knows it. */
export interface KnownSchedule {
  readonly id: number;
  readonly timing: Timing;
  readonly progress: Readonly<ScheduleProgress>;
}

/** A claim of another shard. */
interface Question {
  readonly name: string;
  readonly number: number;
  readonly from: number;
  readonly transfer: number;
}

export interface Claim {
  readonly name: string;
  /** The id under which commands wait for its end: that of the put that made it. */
  readonly id: number;
  /** Its number over all shards. */
  readonly number: number;
  readonly transfer: number;
  /** How often the wall clock had gone ahead when it began. */
  readonly jumps: number;
  /** The shards that have not answered yet. */
  left: number;
  /** The latest version that others have told of. */
  latest: number;
  /** The schedule of that version; undefined if it is gone, or if there is none. */
  found: KnownSchedule | undefined;
}

interface ScheduleClaimsOptions {
  readonly schedules: Schedules;
  readonly shard: number;
  readonly shards: number;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly lastRecord: () => number;
  readonly wallMs: () => number;
  /** Called before a claim begins, and before a schedule is frozen: see ScheduleTurns. */
  readonly catchUp: (schedule?: Schedule) => void;
  /** Returns a number greater than all before it on any shard. */
  readonly nextNumber: () => number;
  /** Called before the others forget a schedule that has moved here. */
  readonly onMove: () => void;
  /** Called when commands that wait for the claim or the schedule with this id may continue. */
  readonly onSettled: (id: number) => void;
}

const TRANSFERS = 2 ** 31;

export class ScheduleClaims {
  readonly #options: ScheduleClaimsOptions;
  /** Claims of this shard by name. */
  readonly #open = new Map<string, Claim>();
  /** Questions that wait for an earlier claim to their name. */
  readonly #waiting = new Map<string, Question[]>();
  readonly #writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  #lastTransfer = 0;

  constructor(options: ScheduleClaimsOptions) {
    this.#options = options;
  }

  /** Number of claims that have not ended. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * Returns the id under which a command about this name has to wait; undefined if this shard knows
   * whether it has the schedule.
   */
  awaited(name: string): number | undefined {
    const claim = this.#open.get(name);
    if (claim !== undefined) return claim.id;
    const schedule = this.#options.schedules.table.get(name);
    return schedule?.isFrozen === true ? schedule.id : undefined;
  }

  /**
   * Returns this shard's claim to a name, which a command has to wait for before it claims the
   * name.
   */
  claimOf(name: string): Claim | undefined {
    return this.#open.get(name);
  }

  /** Returns whether no other shard may have a schedule of this name. */
  isOwn(name: string): boolean {
    if (this.#options.shards === 1) return true;
    return this.#options.schedules.table.get(name)?.isFrozen === false;
  }

  /** Claims a name: asks all other shards for it. */
  begin(name: string, id: number): Claim {
    const { schedules, shard, shards, nextNumber, catchUp } = this.#options;
    assert(!this.#open.has(name), "a shard claims a name once at a time");
    assert(shards > 1, "a single shard claims no names");
    catchUp();
    this.#lastTransfer = (this.#lastTransfer + 1) % TRANSFERS;
    const transfer = this.#lastTransfer;
    const claim: Claim = {
      name,
      id,
      number: nextNumber(),
      transfer,
      jumps: schedules.table.jumps,
      left: shards - 1,
      latest: 0,
      found: undefined,
    };
    this.#open.set(name, claim);
    for (let other = 0; other < shards; other++) if (other !== shard) this.#ask(other, claim);
    return claim;
  }

  #ask(shard: number, { name, number, transfer }: Claim): void {
    assert(name !== "" && number > 0, "a claim has a name and a number");
    const { target, view, at } = this.#carry(
      TransferMessage.ClaimName,
      shard,
      transfer,
      CLAIM_HEADER_BYTES + name.length,
    );
    view.setFloat64(0, number, true);
    target.set(asciiBytes(name), at + CLAIM_HEADER_BYTES);
  }

  #carry(
    message: number,
    toShard: number,
    transfer: number,
    bytes: number,
  ): { target: Uint8Array; view: DataView; at: number } {
    const { port, lastRecord } = this.#options;
    port.beginCarry(message, toShard, transfer, bytes, false, lastRecord());
    const { target, at } = port;
    return { target, at, view: new DataView(target.buffer, target.byteOffset + at, bytes) };
  }

  /** Takes a message of another shard about a name. */
  take(message: number, from: number, transfer: number, body: Span): void {
    if (message === TransferMessage.ClaimName) this.#claimed(from, transfer, body);
    else if (message === TransferMessage.YieldName) this.#yielded(transfer, body);
    else this.ended(from, body);
  }

  /** Takes another shard's claim. */
  #claimed(from: number, transfer: number, body: Span): void {
    assert(from !== this.#options.shard, "a shard asks others for a name");
    this.#answer({ name: ClaimView.name(body), number: ClaimView.claim(body), from, transfer });
  }

  /** Answers a question, now or when an earlier claim to the name has ended. */
  #answer(question: Question): void {
    const { name, number } = question;
    if (!this.#isAfterOther(name, number)) {
      this.#yield(question);
      return;
    }
    const waiting = this.#waiting.get(name);
    if (waiting === undefined) this.#waiting.set(name, [question]);
    else waiting.push(question);
  }

  /** Returns whether a claim with a smaller number hasn't ended, as far as this shard knows. */
  #isAfterOther(name: string, number: number): boolean {
    const own = this.#open.get(name);
    assert(own?.number !== number, "two claims have two numbers");
    if (own !== undefined && own.number < number) return true;
    const freezers = this.#options.schedules.table.get(name)?.freezers;
    return freezers?.values().some((other) => other < number) === true;
  }

  /** Answers the questions that no earlier claim holds up any more. */
  #answerWaiting(name: string): void {
    const waiting = this.#waiting.get(name);
    if (waiting === undefined) return;
    this.#waiting.delete(name);
    for (const question of waiting) this.#answer(question);
  }

  /** Freezes the schedule of this name, if it is here, and describes it to the other shard. */
  #yield({ name, number, from: to, transfer }: Question): void {
    assert(to !== this.#options.shard, "a shard yields a name to another");
    const { schedules, catchUp } = this.#options;
    const { table } = schedules;
    const schedule = table.get(name);
    let attributes = new Uint8Array(0);
    if (schedule !== undefined) {
      catchUp(schedule);
      if (!schedule.isFrozen) schedule.frozenAtJump = table.jumps;
      schedule.freezers.set(to, number);
      table.setTimer(schedule);
      attributes = this.#attributesOf(schedule);
    }
    const { target, view, at } = this.#carry(
      TransferMessage.YieldName,
      to,
      transfer,
      YIELD_HEADER_BYTES + attributes.length,
    );
    const nextMs = schedule?.nextMs ?? 0;
    view.setFloat64(0, schedule?.id ?? 0, true);
    view.setFloat64(8, nextMs === Number.POSITIVE_INFINITY ? 0 : nextMs, true);
    copyBytes(target, at + YIELD_HEADER_BYTES, attributes, 0, attributes.length);
  }

  #attributesOf(schedule: Schedule): Uint8Array<ArrayBuffer> {
    const { facts, name } = schedule;
    const { missed, overlap, ttlMs, delayMillis, timing } = facts;
    this.#writer.clear();
    writeSchedule(this.#writer, { name, missed, overlap, ttlMs, delayMillis, ...timing });
    writeProgress(this.#writer, schedule);
    return this.#writer.bytes.slice(0, this.#writer.length);
  }

  /** Takes another shard's answer to a claim. */
  #yielded(transfer: number, body: Span): void {
    const claim = this.#byTransfer(transfer);
    assert(claim !== undefined && claim.left > 0, "a shard answers a claim once");
    const id = YieldView.id(body);
    if (id > 0) {
      const known = knownOf(id, body);
      if (known.progress.version >= claim.latest) {
        claim.latest = known.progress.version;
        claim.found = known;
      }
    }
    if (--claim.left === 0) this.#options.onSettled(claim.id);
  }

  #byTransfer(transfer: number): Claim | undefined {
    for (const claim of this.#open.values()) if (claim.transfer === transfer) return claim;
    return undefined;
  }

  /**
   * Ends a claim. With a version, this shard has the schedule now, and the others forget theirs.
   */
  end(claim: Claim, version: number): void {
    const { shard, shards, onMove, onSettled } = this.#options;
    assert(claim.left === 0, "a claim ends when all have answered");
    assert(this.#open.get(claim.name) === claim, "a claim ends once");
    this.#open.delete(claim.name);
    if (version > 0 && claim.found !== undefined) onMove();
    for (let other = 0; other < shards; other++) {
      if (other === shard) continue;
      const bytes = END_CLAIM_HEADER_BYTES + claim.name.length;
      const { target, view, at } = this.#carry(TransferMessage.EndClaim, other, claim.transfer, bytes);
      view.setFloat64(0, version, true);
      target.set(asciiBytes(claim.name), at + END_CLAIM_HEADER_BYTES);
    }
    this.#answerWaiting(claim.name);
    onSettled(claim.id);
  }

  /** Takes the end of another shard's claim. */
  ended(from: number, body: Span): void {
    assert(from !== this.#options.shard, "a shard ends its own claims itself");
    const { schedules, wallMs, onSettled } = this.#options;
    const { table } = schedules;
    const name = EndClaimView.name(body);
    const version = EndClaimView.version(body);
    const own = this.#open.get(name);
    if (own !== undefined && own.latest < version) {
      // What others have told of is gone. The shard that has set this version answers later.
      own.latest = version;
      own.found = undefined;
    }
    const schedule = table.get(name);
    const wasFrozen = schedule?.freezers.delete(from) === true;
    if (wasFrozen) {
      // This needs no record: the other shard's record has the same id and is later in the log.
      if (schedule.version < version) table.remove(schedule);
      else {
        table.setTimer(schedule);
        schedules.goOn(schedule, schedule.frozenAtJump, wallMs());
        if (!schedule.isFrozen) schedule.frozenAtJump = 0;
      }
    }
    // Also if the schedule is gone by now: its questions must not wait for ever.
    this.#answerWaiting(name);
    if (wasFrozen) onSettled(schedule.id);
  }
}

function knownOf(id: number, body: Span): KnownSchedule {
  const record = readSchedule(body.bytes, body.start + YIELD_HEADER_BYTES, body.end);
  assert(record !== undefined, "a yielded schedule is complete");
  const { cron, zone, everyMs } = record;
  const nextMs = YieldView.nextMs(body) || Number.POSITIVE_INFINITY;
  return { id, timing: { cron, zone, everyMs }, progress: { ...record, nextMs } };
}
