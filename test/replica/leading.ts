// A node's time as the primary: it opens its log, appends batches and serves clients.

import { Memory } from "../../src/base/bytes.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { wholeJobs } from "../../src/binlog/recovery/recovered-jobs.ts";
import { type ChainPlace, logBatchesOf } from "../../src/message/log-batch.ts";
import { emptyRecordFields, encodeDelete, encodePutHead } from "../../src/message/record.ts";
import { type OfferedBatch, PrimaryCore } from "../../src/replica/primary-core.ts";
import { FirstMessages } from "../../src/replica/primary-node.ts";
import { newTag } from "../../src/replica/shared-log.ts";
import { LEASE_MS, type NodeState } from "./node-state.ts";

const TUBE = new TextEncoder().encode("default");

/** A primary with so many batches under way takes no more commands. */
const BACKLOG_MAX = 12;

export class Leading {
  readonly #node: NodeState;
  #nextId = 1;
  #lentUpTo = 0;
  #appended = 0;
  #acknowledged = 0;
  #mayServeAtMs = 0;
  #scratch = Memory.ofSize(8192);
  #looks = 0;
  #leadSequence = 0;
  #leadN = 0;
  #acknowledgedMessage = 0;
  /** The last batch of its log as a primary. */
  #offeredN = 0;

  constructor(node: NodeState) {
    this.#node = node;
  }

  async lead(place: ChainPlace, sequence: number): Promise<void> {
    const { random, witness, bug } = this.#node.group;
    const { life } = this.#node;
    const node = this;
    const follower = this.#node.follower!;
    this.#node.role = "opens";
    this.#node.epoch = place.epoch;
    const rewriteBelow = this.#node.followLog!.hasOwnJobs ? Number.POSITIVE_INFINITY : 0;
    this.#node.followLog!.close();
    this.#leadSequence = this.#acknowledgedMessage = sequence;
    this.#leadN = place.n;
    this.#node.primary = new PrimaryCore({
      host: {
        append: (message, expectedLast, ticket) => this.#append(life, message, expectedLast, ticket),
        look: (from) => this.#look(life, from),
        acknowledged: (batch, message) => this.#onAcknowledged(batch, message),
        purge: (below) => this.#purge(below),
        ended: (how, why) => this.#leadEnded(how, why),
      },
      place,
      sequence,
      sentAtMs: this.#node.leadSentAtMs,
      leaseMs: LEASE_MS,
      keepBytes: random.pick([0, 10_000, 100_000]),
      firstSequences: follower.firstSequences,
    });
    this.#readFirstMessages(life, follower.beganAt);
    this.#mayServeAtMs = follower.mayServeAtOnce ? 0 : follower.heardAtMs + LEASE_MS;
    const opened = await openBinlog({
      ...this.#node.options,
      chain: {
        place,
        node: this.#node.number,
        rewriteBelow,
        randomTag: () => newTag(() => random.next()),
        sink: {
          hasRoom: true,
          get acknowledged() {
            return node.acknowledgedBatch;
          },
          get acknowledgedMessage() {
            return node.#acknowledgedMessage;
          },
          take: (bytes, numbers) => this.#offer(bytes, numbers),
        },
      },
    });
    this.#node.storage = opened.storage;
    this.#node.jobs = new Map();
    for (const { fields, body } of wholeJobs(opened.jobs(() => 0)))
      this.#node.jobs.set(fields.id, Buffer.from(body).toString("latin1"));
    this.#nextId = opened.nextId;
    if (bug === "ids are not lent") this.#nextId = 1 + Math.max(0, ...this.#node.jobs.keys());
    this.#lentUpTo = 0;
    this.#appended = this.#acknowledged = 0;
    this.#node.replies = [];
    this.#node.role = "leads";
    witness.leads(this.#node, place.epoch);
    this.#turn(life);
  }

  get acknowledgedBatch(): number {
    return this.#node.group.bug === "a segment goes before the ack"
      ? this.#offeredN
      : (this.#node.primary?.acknowledgedN ?? 0);
  }

  #offer(message: Uint8Array, numbers: Float64Array): void {
    const { header, bytes } = logBatchesOf(message.slice())![0]!;
    const { n, tag, segment, oldest, idsLent } = header;
    this.#offeredN = n;
    const batch: OfferedBatch = { n, tag, segment, oldest, idsLent, bytes, numbers: numbers.slice() };
    if (this.#node.group.bug === "the log is purged before the ack") {
      const below = this.#node.follower!.firstSequences.get(oldest);
      if (below !== undefined) this.#node.group.log.purge(below);
    }
    this.#node.primary!.offer(batch, this.#node.group.time.nowMs);
  }

  #append(life: number, message: Uint8Array, expectedLast: number, ticket: number): void {
    const { time, random, bug, log } = this.#node.group;
    const before = this.#node.connection.life;
    this.#node.connection.append(message, expectedLast, (answer) => {
      if (!this.#node.alive(life)) return;
      if ("refused" in answer) this.#node.primary!.failed(ticket, time.nowMs);
      else {
        const sequence = bug === "any sequence is taken for an ack" ? expectedLast + 1 : answer.sequence;
        this.#node.primary!.appended(ticket, sequence, time.nowMs);
      }
    });
    if (log.quiet || !random.chance(0.01)) return;
    time.after(random.below(50), () => {
      if (!this.#node.alive(life) || this.#node.connection.life !== before) return;
      this.#node.connection.break();
      this.#node.primary!.doubt(time.nowMs);
    });
  }

  #look(life: number, from: number): void {
    const { time, log } = this.#node.group;
    const look = ++this.#looks;
    // Earlier questions are no longer answered; earlier messages may still arrive.
    this.#node.connection.break();
    time.after(log.delayMs(), () => {
      if (!this.#node.alive(life) || look !== this.#looks) return;
      if (!this.#node.connection.reaches) this.#node.primary!.lookFailed(time.nowMs);
      else this.#node.primary!.looked(log.read(from, Number.POSITIVE_INFINITY), log.last, time.nowMs);
    });
  }

  /** The part of the log that was not read before the lead. */
  #readFirstMessages(life: number, before: number): void {
    const { time, log, bug } = this.#node.group;
    if (before === 0) return;
    if (bug === "a segment is taken to begin where reading began") {
      const begun = new FirstMessages();
      for (const message of log.read(before, 1)) begun.take(message);
      this.#node.primary!.learnFirst(begun.sequences);
      return;
    }
    time.after(log.delayMs() + 500, () => {
      if (!this.#node.alive(life)) return;
      if (!this.#node.connection.reaches) {
        this.#readFirstMessages(life, before);
        return;
      }
      const found = new FirstMessages();
      for (const message of log.read(log.first, Math.max(0, before - log.first + 1))) found.take(message);
      this.#node.primary!.learnFirst(found.sequences);
    });
  }

  #purge(below: number): void {
    const { time, log, bug } = this.#node.group;
    const n = this.#node.primary!.acknowledgedN;
    const place = bug === "the place of a purge is computed" ? this.#leadSequence + n - this.#leadN : below;
    const { losses } = log;
    time.after(log.delayMs(), () => {
      if (this.#node.connection.reaches && log.losses === losses) log.purge(place);
    });
  }

  #onAcknowledged({ numbers, idsLent }: OfferedBatch, message: number): void {
    this.#acknowledgedMessage = message;
    this.#acknowledged = Math.max(this.#acknowledged, numbers[0]!);
    this.#lentUpTo = Math.max(this.#lentUpTo, idsLent);
    while (this.#node.replies[0] !== undefined && this.#node.replies[0].n <= this.#acknowledged)
      this.#node.replies.shift()!.tell();
  }

  #leadEnded(how: string, why: string): void {
    const { witness, time } = this.#node.group;
    witness.log(`node ${this.#node.number} ends its lead: ${how}, ${why}`);
    if (how === "log-lost") witness.fail(`node ${this.#node.number}: ${how}, ${why}`);
    this.#node.stop();
    time.after(200, () => (this.#node.isUp ? undefined : this.#node.start()));
  }

  /** A turn of the log's thread and of the clock. */
  #turn(life: number): void {
    const { time, random } = this.#node.group;
    if (!this.#node.alive(life) || this.#node.role !== "leads") return;
    const storage = this.#node.storage!;
    const { nowMs } = time;
    storage.lendIds(this.#nextId - 1);
    storage.flush(nowMs);
    const before = storage.table.oldest!.number;
    storage.work(nowMs);
    if (storage.table.oldest!.number > before) this.#node.compactions++;
    if (storage.failure !== undefined) throw storage.failure;
    this.#node.primary!.tick(nowMs);
    if (this.#node.alive(life)) time.after(5 + random.below(40), () => this.#turn(life));
  }

  get #mayServe(): boolean {
    const { nowMs } = this.#node.group.time;
    return (
      this.#node.role === "leads" && nowMs >= this.#mayServeAtMs && nowMs < this.#node.primary!.serveUntilMs
    );
  }

  /** Clients send some commands. */
  command(): void {
    const { random, witness, bug } = this.#node.group;
    if (!this.#node.isUp || !this.#mayServe || this.#node.primary!.pendingBatches > BACKLOG_MAX) return;
    witness.serves(this.#node, this.#node.epoch);
    for (let left = 1 + random.below(3); left > 0; left--) {
      if (this.#node.jobs.size > 0 && random.chance(this.#node.jobs.size > 40 ? 0.7 : 0.42)) this.#delete();
      else this.#put();
    }
    if (bug === "a reply leaves before the ack") for (const { tell } of this.#node.replies.splice(0)) tell();
    if (random.chance(0.5)) this.#node.storage!.flush(this.#node.group.time.nowMs);
  }

  #put(): void {
    const { random, witness, bug } = this.#node.group;
    const id = this.#nextId;
    const lent =
      bug === "an id is seen before its lending is acknowledged"
        ? this.#node.storage!.tail.lending.durableUpTo
        : this.#lentUpTo;
    if (bug !== "ids are not lent" && id > lent) {
      this.#node.storage!.lendIds(id);
      return;
    }
    this.#nextId++;
    const body = `${witness.nextBody()}`.padEnd(1 + random.below(random.chance(0.1) ? 3000 : 300), "x");
    const bytes = new TextEncoder().encode(body);
    const fields = { ...emptyRecordFields(), id, ttrSeconds: 60, createdAtMs: 1 };
    const bodyAt = encodePutHead(this.#scratch, 0, fields, TUBE, bytes.length);
    this.#scratch.bytes.set(bytes, bodyAt);
    this.#node.jobs.set(id, body);
    witness.put(this.#node, id, body);
    this.#record(bodyAt + bytes.length, () => witness.inserted(id));
  }

  #delete(): void {
    const { random, witness } = this.#node.group;
    const id = random.pick([...this.#node.jobs.keys()])!;
    this.#node.jobs.delete(id);
    witness.deleting(id);
    this.#record(encodeDelete(this.#scratch.view, 0, id), () => witness.deleted(id));
  }

  #record(length: number, tell: () => void): void {
    this.#node.storage!.append(0, ++this.#appended, this.#scratch.bytes, 0, length);
    this.#node.replies.push({ n: this.#appended, tell });
  }
}
