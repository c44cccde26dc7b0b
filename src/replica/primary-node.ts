// A leading node of a group: sends the batches of its log to the shared log, and publishes which
// ones are acknowledged and until when it may serve.

import { assert, CHECKED } from "../base/assert.ts";
import { GroupFigure } from "../message/group.ts";
import { type ChainPlace, hasLogBatches, logBatchesOf } from "../message/log-batch.ts";
import { binlogGroup, groupBell, type Topology } from "../message/topology.ts";
import { DoorbellOwner } from "../ring/doorbell.ts";
import { hasPaused, monotonicMs } from "../ring/monotonic-clock.ts";
import { EMPTY, RingReader } from "../ring/ring.ts";
import type { FollowerCore } from "./follower-core.ts";
import { LOOK_AROUND_MS, LOOK_MS, type NodeState, sleep } from "./node-state.ts";
import { PrimaryCore } from "./primary-core.ts";
import { follows, LogError, type LogMessage, placeBefore, placeOf, type SharedLog } from "./shared-log.ts";

// Finds the beginning of each segment in the part of the shared log that a node skipped because its
// local log had it. Only a leader needs this: it purges below such a message, and looks the
// position up instead of computing it.

export class FirstMessages {
  /** For each segment, the first message that contains a valid batch of it. */
  readonly sequences = new Map<number, number>();
  #place: ChainPlace | undefined;
  #last = 0;

  /** Takes the messages of the log in order, from the first. */
  take({ sequence, bytes }: LogMessage): void {
    assert(sequence > this.#last, "the messages of the log are in order");
    this.#last = sequence;
    for (const { header } of logBatchesOf(bytes) ?? []) {
      this.#place ??= placeBefore(header);
      if (!follows(this.#place, header)) continue;
      this.#place = placeOf(header);
      if (!this.sequences.has(header.segment)) this.sequences.set(header.segment, sequence);
    }
  }
}

// Reads the shared log for a leader in doubt: everything from its last acknowledged message on,
// unless another lead shows up early. A node that was stopped for hours would otherwise read
// gigabytes only to step down.

/**
 * First interval between checks for another lead, more than a primary has in flight; it doubles
 * after each check.
 */
const ENOUGH_BYTES = 4 * 1024 * 1024;

/** Returns the messages `from` to `to`, or the first of them. */
export async function readInDoubt(
  log: Pick<SharedLog, "read">,
  primary: Pick<PrimaryCore, "seesOtherLead">,
  from: number,
  to: number,
): Promise<LogMessage[]> {
  assert(from > 0, "a primary in doubt starts at a known message");
  const messages: LogMessage[] = [];
  let enoughBytes = ENOUGH_BYTES;
  let readBytes = 0;
  for await (const message of log.read(from, to)) {
    messages.push(message);
    readBytes += message.bytes.length;
    if (readBytes < enoughBytes) continue;
    if (primary.seesOtherLead(messages)) break;
    enoughBytes *= 2;
  }
  return messages;
}

// Batches that the shared log has acknowledged but no standby has reported on disk, for
// `--replicate-wait standby`.

/** Batches up to `n` are acknowledged, and with them each shard's records up to these numbers. */
interface Acknowledged {
  n: number;
  numbers: Float64Array;
  idsLent: number;
}

/**
 * Without a standby, the list grows every second, because timers continue. Beyond this length, the
 * latest batches are released together. Clients have no more than that in flight.
 */
const HELD_MAX = 1024;

export class HeldBatches {
  #held: Acknowledged[] = [];

  get count(): number {
    return this.#held.length;
  }

  hold(batch: Acknowledged): void {
    const held = this.#held;
    const last = held.at(-1);
    assert(last === undefined || batch.n > last.n, "batches are held in order");
    assert(
      last === undefined || batch.numbers.length === last.numbers.length,
      "the number of shards is constant",
    );
    if (CHECKED && last !== undefined)
      assert(
        batch.numbers.every((number, shard) => number >= last.numbers[shard]!),
        "records are acknowledged in order",
      );
    // A batch without changes releases no reply.
    if (last !== undefined && isSame(last, batch)) return;
    if (held.length < HELD_MAX) held.push(batch);
    else held[HELD_MAX - 1] = batch;
    assert(held.length <= HELD_MAX && held.at(-1) === batch, "the last batch is held");
  }

  /**
   * A standby has all batches up to `n`. Returns the last batch that this releases, or undefined.
   */
  release(n: number): Acknowledged | undefined {
    assert(n >= 0, "the number of a batch is known: NaN would release all");
    const kept = this.#held.findIndex((batch) => batch.n > n);
    const released = this.#held.splice(0, kept === -1 ? this.#held.length : kept);
    assert(this.#held[0] === undefined || this.#held[0].n > n, "released batches are no longer held");
    return released.at(-1);
  }
}

function isSame(a: Acknowledged, b: Acknowledged): boolean {
  return a.idsLent === b.idsLent && a.numbers.every((number, shard) => number === b.numbers[shard]);
}

const NEARLY_FULL = 0.9;
/** Delay before the node retries an append to a full log. */
const ROOM_MS = 500;
/** Maximum number of batches in the primary's core; more stay in the ring. */
const PENDING_BATCHES_MAX = 64;
/** Bytes that stay in the shared log for slow standbys. */
const KEEP_BYTES = 64 * 1024 * 1024;

/** Data from which the node starts to lead. */
interface LeadStart {
  /** The batch of the LEAD, and its message in the shared log. */
  readonly place: ChainPlace;
  readonly sequence: number;
  /** The time when the LEAD was sent, on the monotonic clock. */
  readonly sentAtMs: number;
  readonly follower: FollowerCore;
}

export class PrimaryNode {
  readonly core: PrimaryCore;
  readonly #state: NodeState;
  readonly #shards: number;
  readonly #ring: RingReader;
  readonly #doorbell: DoorbellOwner;
  readonly #held = new HeldBatches();
  /** Called at each tick. */
  readonly #onTick: () => void;
  #isDoorbellHeard = false;
  #draining = false;

  constructor(state: NodeState, topology: Topology, start: LeadStart, onTick: () => void) {
    const { place, sequence } = start;
    this.#state = state;
    this.#shards = topology.shards;
    this.#ring = new RingReader(binlogGroup(topology).ring);
    this.#doorbell = new DoorbellOwner(new Int32Array(topology.doorbells), groupBell(topology));
    this.#onTick = onTick;
    assert(state.role === "standby", "only a standby takes the lead");
    assert(start.sentAtMs > 0 && start.sentAtMs <= monotonicMs(), "a LEAD was sent before it counts");
    state.role = "opening";
    state.place = place;
    state.words.publishBatch(place.n, sequence);
    this.core = new PrimaryCore({
      host: {
        append: (message, expectedLast, ticket) => void this.#append(message, expectedLast, ticket),
        look: (from) => void this.#look(from),
        acknowledged: ({ n, tag, numbers, idsLent }, message) => {
          assert(n > state.place.n, "the place of a primary only advances");
          state.place = { epoch: place.epoch, n, tag };
          if (!state.options.waitsForStandby) state.words.publishAcknowledged(numbers, idsLent);
          else this.#held.hold({ n, numbers, idsLent });
          state.words.publishBatch(n, message);
        },
        purge: (below) => void this.#purge(below),
        ended: (how, why) => state.end(how, why),
      },
      place,
      sequence,
      sentAtMs: start.sentAtMs,
      leaseMs: state.options.leaseMs,
      keepBytes: KEEP_BYTES,
      firstSequences: start.follower.firstSequences,
    });
  }

  /** Opens the local log for writing, and reports when the server may serve clients. */
  lead({ place, follower }: LeadStart): void {
    const { log, options } = this.#state;
    if (options.waitsForStandby) log.onKept((n) => this.#release(n));
    const mayServeAtMs = follower.mayServeAtOnce ? 0 : follower.heardAtMs + options.leaseMs;
    this.#state.order({ order: "lead", place });
    void this.#readFirstMessages(follower.beganAt);
    const mayServeInMs = Math.max(0, mayServeAtMs - monotonicMs());
    assert(mayServeInMs < options.leaseMs + 1, "a new primary waits for no more than a lease");
    this.#state.tell({ news: "leads", epoch: place.epoch, mayServeInMs });
    this.#drainRing();
    this.#tick();
  }

  #release(n: number): void {
    const last = this.#held.release(n);
    if (last === undefined) return;
    assert(last.n <= n && last.n <= this.core.acknowledgedN, "a released batch is acknowledged");
    this.#state.words.publishAcknowledged(last.numbers, last.idsLent);
    this.#state.words.ringAll();
  }

  /** Reads the part of the log that the node skipped before it led, so that it can be purged. */
  async #readFirstMessages(before: number): Promise<void> {
    while (before > 0 && !this.#state.ended) {
      try {
        const found = new FirstMessages();
        const { first } = await this.#state.log.ends();
        for await (const message of this.#state.log.read(Math.max(1, first), before)) found.take(message);
        return this.core.learnFirst(found.sequences);
      } catch (error) {
        if (!(error instanceof LogError)) throw error;
        await sleep(LOOK_AROUND_MS);
      }
    }
  }

  #tick(): void {
    if (this.#state.ended) return;
    this.core.tick(monotonicMs());
    this.#drainRing();
    this.#onTick();
    setTimeout(() => this.#tick(), LOOK_MS);
  }

  async #append(message: Uint8Array, expectedLast: number, ticket: number): Promise<void> {
    const figures = this.#state.figures;
    const sentAtMs = monotonicMs();
    try {
      const sequence = await this.#state.log.append(message, expectedLast);
      figures[GroupFigure.Appends]! += 1;
      figures[GroupFigure.AppendMs]! += monotonicMs() - sentAtMs;
      figures[GroupFigure.LogBytes]! += message.length;
      this.noteRoom();
      this.#checkClock();
      this.core.appended(ticket, sequence, monotonicMs());
    } catch (error) {
      if (!(error instanceof LogError)) throw error;
      if (error.kind === "full") await this.#waitForRoom();
      this.core.failed(ticket, monotonicMs());
    }
    this.#drainRing();
  }

  async #look(from: number): Promise<void> {
    const primary = this.core;
    try {
      const { first, last } = await this.#state.log.ends();
      const messages = await readInDoubt(this.#state.log, primary, Math.max(from, first), last);
      this.#state.hasRead();
      this.#checkClock();
      primary.looked(messages, last, monotonicMs());
    } catch (error) {
      this.#state.readFailed(error);
      primary.lookFailed(monotonicMs());
    }
    this.#drainRing();
  }

  async #purge(below: number): Promise<void> {
    // The next purge covers anything that this one missed.
    await this.#state.log.purge(below).catch(() => {});
  }

  /** Refuses puts before the log is full, because all other commands continue in the rest. */
  noteRoom(): void {
    const { LogBytes, LogLimitBytes } = GroupFigure;
    const limitBytes = this.#state.figures[LogLimitBytes]!;
    const isFull = limitBytes > 0 && this.#state.figures[LogBytes]! > NEARLY_FULL * limitBytes;
    this.#state.words.publishFull(isFull);
    if (isFull) this.core.purgeNow();
  }

  /** The log is full. Purge as much as possible before the next attempt. */
  async #waitForRoom(): Promise<void> {
    this.#state.words.publishFull(true);
    this.core.purgeNow();
    await sleep(ROOM_MS);
  }

  /** Detects a suspended machine: another node may lead. Call before any answer counts. */
  #checkClock(): void {
    const nowMs = monotonicMs();
    const aheadMs = Date.now() - nowMs;
    const wasPaused = hasPaused(aheadMs, this.#state.wallAheadMs);
    this.#state.wallAheadMs = aheadMs;
    if (!wasPaused) return;
    this.#state.say(
      "warn",
      "the wall clock has jumped: the server continues when the shared log has answered",
    );
    this.core.distrust(nowMs);
  }

  /** Another node leads or tries to: serve nothing until the shared log has settled it. */
  heedOtherLead({ bytes }: LogMessage): void {
    const batches = hasLogBatches(bytes) ? logBatchesOf(bytes) : undefined;
    const isNewer = batches?.some(({ header }) => header.epoch > this.#state.place.epoch) === true;
    if (this.#state.ended || !isNewer) return;
    this.core.distrust(monotonicMs());
    this.#drainRing();
  }

  /** Reports when everything that the log has written is acknowledged. */
  drain(): void {
    this.#draining = true;
    this.#drainRing();
  }

  /** Takes batches from the ring, publishes the progress of the shared log, and waits for more. */
  readonly #drainRing = (): void => {
    if (this.#state.ended) return;
    const primary = this.core;
    this.#checkClock();
    const nowMs = monotonicMs();
    while (primary.pendingBatches < PENDING_BATCHES_MAX) {
      const offset = this.#ring.next();
      if (offset === EMPTY) break;
      this.#takeBatch(offset, nowMs);
    }
    assert(primary.pendingBatches <= PENDING_BATCHES_MAX, "the batches of the core are limited");
    if (this.#ring.release()) this.#state.words.ringBinlog();
    const isThawed = this.#state.words.publishLease(primary.serveUntilMs, nowMs, this.#state.wallAheadMs);
    if (isThawed && this.#state.role === "primary") {
      this.#state.figures[GroupFigure.Freezes]! += 1;
      this.#state.say("info", "the shared log answers: the server continues");
    }
    this.#state.words.ringAll();
    const isDrained = primary.pendingBatches === 0 && !this.#ring.hasMessage;
    if (this.#draining && isDrained) {
      this.#draining = false;
      this.#state.tell({ news: "drained" });
    }
    this.#awaitBell();
  };

  #takeBatch(offset: number, nowMs: number): void {
    const ring = this.#ring;
    const shards = this.#shards;
    const length = ring.uint32[(offset >> 2) + 1]!;
    assert(8 + 8 * shards + length <= ring.int32[offset >> 2]!, "a batch ends inside its message");
    const numbersAt = (offset >> 3) + 1;
    const numbers = ring.float64.slice(numbersAt, numbersAt + shards);
    const bytesAt = offset + 8 + 8 * shards;
    const bytes = ring.bytes.slice(bytesAt, bytesAt + length);
    const batches = logBatchesOf(bytes);
    assert(batches?.length === 1, "a message of the log has one complete batch");
    const { n, tag, segment, oldest, idsLent } = batches[0]!.header;
    this.core.offer({ n, tag, segment, oldest, idsLent, bytes, numbers }, nowMs);
  }

  #awaitBell(): void {
    if (this.#isDoorbellHeard) return;
    this.#doorbell.prepare();
    // While the core is full, messages may wait; the next answer continues.
    if (this.#ring.hasMessage && this.core.pendingBatches < PENDING_BATCHES_MAX) {
      this.#doorbell.cancel();
      setImmediate(this.#drainRing);
      return;
    }
    const rung = this.#doorbell.sleepAsync();
    if (rung === undefined) {
      setImmediate(this.#drainRing);
      return;
    }
    this.#isDoorbellHeard = true;
    rung.then(() => {
      assert(this.#isDoorbellHeard, "the node waits for one doorbell at a time");
      this.#isDoorbellHeard = false;
      this.#drainRing();
    });
  }
}
