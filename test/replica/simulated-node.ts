// One node of a simulated group: real cores and a real log on an in-memory disk; only threads,
// sockets and clocks are missing.

import { Memory } from "../../src/base/memory.ts";
import type { FollowLog } from "../../src/binlog/follow-log.ts";
import { segmentNumber } from "../../src/binlog/format/segment-format.ts";
import type { Storage } from "../../src/binlog/live/storage.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { openFollowLog } from "../../src/binlog/open-follow-log.ts";
import type { OpenOptions } from "../../src/binlog/recovery/open-options.ts";
import { wholeJobs } from "../../src/binlog/recovery/recovered-jobs.ts";
import { type BatchHeader, batchesOf, type ChainPlace } from "../../src/message/batch.ts";
import { emptyRecordFields, encodeDelete, encodePutHead } from "../../src/message/record.ts";
import { FirstMessages } from "../../src/replica/first-messages.ts";
import { FollowerCore, newTag } from "../../src/replica/follower-core.ts";
import { joined } from "../../src/replica/own-tail.ts";
import { type OfferedBatch, PrimaryCore } from "../../src/replica/primary-core.ts";
import { VirtualDisk } from "../binlog/virtual-disk.ts";
import type { SeededRandom } from "../support/seeded-random.ts";
import { type FaultyLog, LogConnection } from "./faulty-log.ts";
import type { Bug } from "./planted-bugs.ts";
import type { VirtualTime } from "./virtual-time.ts";

export const LEASE_MS = 3000;
const SEGMENT_BYTES = 16_384;
const EXTENT_BYTES = 4096;
const LENT_IDS = 16;
const TUBE = new TextEncoder().encode("default");
/** A primary with so many batches under way takes no more commands. */
const BACKLOG_MAX = 12;

/** What the group has told its clients, and all that happened to it. */
export interface Witness {
  log(what: string): void;
  /** A number that no body had. */
  nextBody(): number;
  /** Commands that were sent: a put of a job with this id, or its deletion. */
  put(node: SimulatedNode, id: number, body: string): void;
  deleting(id: number): void;
  inserted(id: number): void;
  deleted(id: number): void;
  leads(node: SimulatedNode, epoch: number): void;
  serves(node: SimulatedNode, epoch: number): void;
  /** After a power cut one node is the first. */
  mayStart(node: SimulatedNode): boolean;
  fail(what: string): never;
}

interface Group {
  time: VirtualTime;
  random: SeededRandom;
  log: FaultyLog;
  witness: Witness;
  bug: Bug | undefined;
  nodes: SimulatedNode[];
}

class UnchainedFollower extends FollowerCore {
  protected override isValid(place: ChainPlace, header: BatchHeader): boolean {
    return header.epoch >= place.epoch && header.n > place.n;
  }
}

class SkippingFollower extends FollowerCore {
  override answered(ends: Parameters<FollowerCore["answered"]>[0], nowMs: number): void {
    if (this.wanted > 0 && this.wanted < ends.first) this.wanted = ends.first;
    super.answered(ends, nowMs);
  }

  protected override isValid(place: ChainPlace, header: BatchHeader): boolean {
    return super.isValid(place, header) || (header.epoch === place.epoch && header.n > place.n + 1);
  }
}

class CuttingFollower extends FollowerCore {
  protected override mayAppendTail(): boolean {
    return false;
  }
}

const FOLLOWERS: Partial<Record<Bug, typeof FollowerCore>> = {
  "no chain": UnchainedFollower,
  "holes are skipped": SkippingFollower,
  "a tail is cut although nobody has led since": CuttingFollower,
};

export class SimulatedNode {
  readonly number: number;
  readonly disk = new VirtualDisk();
  isUp = false;
  role: "off" | "follows" | "opens" | "leads" = "off";
  life = 0;
  epoch = 0;
  readonly connection: LogConnection;
  readonly #group: Group;
  #follower: FollowerCore | undefined;
  #followLog: FollowLog | undefined;
  #primary: PrimaryCore | undefined;
  storage: Storage | undefined;
  /** Jobs as the engine has them: id to body. */
  jobs = new Map<number, string>();
  #nextId = 1;
  #lentUpTo = 0;
  #appended = 0;
  #acknowledged = 0;
  #replies: { n: number; tell: () => void }[] = [];
  #mayServeAtMs = 0;
  #scratch = Memory.ofSize(8192);
  #looks = 0;
  compactions = 0;
  cuts = 0;
  tails = 0;
  restarts = 0;
  startsAnew = 0;

  constructor(group: Group, number: number) {
    this.#group = group;
    this.number = number;
    this.connection = new LogConnection(group.log);
  }

  get #options(): OpenOptions {
    const { random, time } = this.#group;
    return {
      disk: this.disk,
      shards: 1,
      segmentBytes: SEGMENT_BYTES,
      syncEvery: 50,
      salvage: false,
      parallel: false,
      smallSegments: true,
      lentIds: LENT_IDS,
      randomSalt: () => random.bits(),
      wallMs: () => time.nowMs,
      clockMs: () => time.nowMs,
      notice: () => {},
      progress: () => {},
    };
  }

  #alive(life: number): boolean {
    return this.isUp && this.life === life;
  }

  // --- following ---------------------------------------------------------------------------------

  async start(): Promise<void> {
    const { random, time, bug, witness } = this.#group;
    if (!witness.mayStart(this)) {
      time.after(100, () => (this.isUp ? undefined : this.start()));
      return;
    }
    this.isUp = true;
    this.life++;
    this.restarts++;
    this.role = "follows";
    this.connection.break();
    const { life } = this;
    const followLog = await openFollowLog(this.#options, 0, EXTENT_BYTES);
    this.#followLog = followLog;
    const Core = (bug === undefined ? undefined : FOLLOWERS[bug]) ?? FollowerCore;
    this.#follower = new Core({
      host: {
        apply: (batch) => {
          followLog.apply(batch);
        },
        cutAfter: (n) => {
          this.cuts++;
          this.#group.witness.log(`node ${this.number} cuts its log behind batch ${n}`);
          if (bug !== "the tail is kept at rejoin") followLog.cutAfter(n);
        },
        appendTail: (after, expectedLast) => this.#appendTail(life, followLog.tail(after), expectedLast),
        tryLead: (tag, expectedLast) => this.#tryLead(life, tag, expectedLast),
        lead: (place, sequence) => {
          time.after(0, () => (this.#alive(life) ? this.#lead(place, sequence) : undefined));
        },
        ended: (how, why) => this.#followEnded(how, why),
      },
      node: this.number,
      own: [...followLog.known],
      hasOwnJobs: followLog.hasOwnJobs,
      seed: 0,
      leaseMs: LEASE_MS,
      random: () => random.next(),
    });
    this.#follow(life);
  }

  #followEnded(how: string, why: string): void {
    const { witness } = this.#group;
    witness.log(`node ${this.number} ends following: ${how}, ${why}`);
    if (how !== "start-anew") witness.fail(`node ${this.number}: ${how}, ${why}`);
    this.startsAnew++;
    this.stop();
    for (const name of this.disk.names()) this.disk.unlink(name);
    this.disk.syncFolder();
    this.#group.time.after(100, () => (this.isUp ? undefined : this.start()));
  }

  /** The process ends in some order; its disk stays. */
  stop(): void {
    this.isUp = false;
    this.role = "off";
    this.life++;
    this.disk.kill();
    this.connection.break();
    this.#replies = [];
  }

  crash(): void {
    this.#group.witness.log(`node ${this.number} crashes (${this.role})`);
    this.stop();
    this.disk.crash(this.#group.random);
  }

  #follow(life: number): void {
    const { time, random, log, nodes } = this.#group;
    if (!this.#alive(life) || this.role !== "follows") return;
    time.after(20 + random.below(60), () => this.#follow(life));
    const follower = this.#follower!;
    follower.isComplete = this.#followLog!.isComplete;
    if (this.connection.reaches) {
      const known = follower.knownMessage(log.last);
      if (known >= log.first) for (const message of log.read(known, 1)) follower.beginAt(message);
      follower.answered({ first: log.first, last: log.last, bytes: 0, limitBytes: 0 }, time.nowMs);
      if (!this.#alive(life)) return;
      if (follower.next > 0)
        for (const message of log.read(follower.next, 1 + random.below(8))) {
          follower.read(message, time.nowMs);
          if (!this.#alive(life)) return;
        }
      const leader = nodes[follower.leader - 1];
      if (leader !== undefined && leader !== this && random.chance(0.3))
        follower.seen(leader.number, leader.isUp ? "silent" : "gone");
    }
    this.#followLog!.flush(time.nowMs);
    follower.tick(time.nowMs);
  }

  /** One message after the other, each once the one before is in the log. */
  #appendTail(life: number, batches: readonly Uint8Array[], expectedLast: number): void {
    const messages = [...joined(batches)];
    this.#group.witness.log(`node ${this.number} appends its tail, ${batches.length} batches, again`);
    const next = (last: number): void => {
      const message = messages.shift();
      if (message === undefined) {
        this.#follower!.tailSent();
        return;
      }
      this.connection.append(message, last, (answer) => {
        if (!this.#alive(life) || this.role !== "follows") return;
        if ("refused" in answer) this.#follower!.tailSent();
        else next(answer.sequence);
      });
    };
    this.tails++;
    next(expectedLast);
  }

  #tryLead(life: number, tag: number, expectedLast: number): void {
    const { witness, bug, time } = this.#group;
    const lead = this.#followLog!.leadBatch(this.number, tag);
    const { header } = batchesOf(lead)![0]!;
    witness.log(
      `node ${this.number} tries to lead: epoch ${header.epoch}, batch ${header.n}, behind ${expectedLast}`,
    );
    const sentAtMs = this.#group.time.nowMs;
    this.#leadSentAtMs = sentAtMs;
    this.connection.append(lead, expectedLast, (answer) => {
      if (!this.#alive(life) || this.role !== "follows") return;
      if ("refused" in answer) this.#follower!.refused();
      else if (bug === "the ack of a LEAD is believed") {
        this.#followLog!.apply({ header, bytes: lead });
        const place = { epoch: header.epoch, n: header.n, tag };
        time.after(0, () => (this.#alive(life) ? this.#lead(place, answer.sequence) : undefined));
      }
    });
  }

  #leadSentAtMs = 0;

  // --- leading -----------------------------------------------------------------------------------

  async #lead(place: ChainPlace, sequence: number): Promise<void> {
    const { random, witness, bug } = this.#group;
    const { life } = this;
    const node = this;
    const follower = this.#follower!;
    this.role = "opens";
    this.epoch = place.epoch;
    const rewriteBelow = this.#followLog!.hasOwnJobs ? Number.POSITIVE_INFINITY : 0;
    this.#followLog!.close();
    this.#leadSequence = this.#acknowledgedMessage = sequence;
    this.#leadN = place.n;
    this.#primary = new PrimaryCore({
      host: {
        append: (message, expectedLast, ticket) => this.#append(life, message, expectedLast, ticket),
        look: (from) => this.#look(life, from),
        acknowledged: (batch, message) => this.#onAcknowledged(batch, message),
        purge: (below) => this.#purge(below),
        ended: (how, why) => this.#leadEnded(how, why),
      },
      place,
      sequence,
      sentAtMs: this.#leadSentAtMs,
      leaseMs: LEASE_MS,
      keepBytes: random.pick([0, 10_000, 100_000]),
      firstSequences: follower.firstSequences,
    });
    this.#readFirstMessages(life, follower.beganAt);
    this.#mayServeAtMs = follower.mayServeAtOnce ? 0 : follower.heardAtMs + LEASE_MS;
    const opened = await openBinlog({
      ...this.#options,
      chain: {
        place,
        node: this.number,
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
    this.storage = opened.storage;
    this.jobs = new Map();
    for (const { fields, body } of wholeJobs(opened.jobs(() => 0)))
      this.jobs.set(fields.id, Buffer.from(body).toString("latin1"));
    this.#nextId = opened.nextId;
    if (bug === "ids are not lent") this.#nextId = 1 + Math.max(0, ...this.jobs.keys());
    this.#lentUpTo = 0;
    this.#appended = this.#acknowledged = 0;
    this.#replies = [];
    this.role = "leads";
    witness.leads(this, place.epoch);
    this.#turn(life);
  }

  #leadSequence = 0;
  #leadN = 0;
  #acknowledgedMessage = 0;
  /** The last batch of its log as a primary. */
  #offeredN = 0;

  get acknowledgedBatch(): number {
    return this.#group.bug === "a segment goes before the ack"
      ? this.#offeredN
      : (this.#primary?.acknowledgedN ?? 0);
  }

  #offer(message: Uint8Array, numbers: Float64Array): void {
    const { header, bytes } = batchesOf(message.slice())![0]!;
    const { n, tag, segment, oldest, idsLent } = header;
    this.#offeredN = n;
    const batch: OfferedBatch = { n, tag, segment, oldest, idsLent, bytes, numbers: numbers.slice() };
    if (this.#group.bug === "the log is purged before the ack") {
      const below = this.#follower!.firstSequences.get(oldest);
      if (below !== undefined) this.#group.log.purge(below);
    }
    this.#primary!.offer(batch, this.#group.time.nowMs);
  }

  #append(life: number, message: Uint8Array, expectedLast: number, ticket: number): void {
    const { time, random, bug, log } = this.#group;
    const before = this.connection.life;
    this.connection.append(message, expectedLast, (answer) => {
      if (!this.#alive(life)) return;
      if ("refused" in answer) this.#primary!.failed(ticket, time.nowMs);
      else {
        const sequence = bug === "any sequence is taken for an ack" ? expectedLast + 1 : answer.sequence;
        this.#primary!.appended(ticket, sequence, time.nowMs);
      }
    });
    if (log.quiet || !random.chance(0.01)) return;
    time.after(random.below(50), () => {
      if (!this.#alive(life) || this.connection.life !== before) return;
      this.connection.break();
      this.#primary!.doubt(time.nowMs);
    });
  }

  #look(life: number, from: number): void {
    const { time, log } = this.#group;
    const look = ++this.#looks;
    // What was asked before is not answered any more; what was sent before may still arrive.
    this.connection.break();
    time.after(log.delayMs(), () => {
      if (!this.#alive(life) || look !== this.#looks) return;
      if (!this.connection.reaches) this.#primary!.lookFailed(time.nowMs);
      else this.#primary!.looked(log.read(from, Number.POSITIVE_INFINITY), log.last, time.nowMs);
    });
  }

  /** The part of the log that was not read before the lead. */
  #readFirstMessages(life: number, before: number): void {
    const { time, log, bug } = this.#group;
    if (before === 0) return;
    if (bug === "a segment is taken to begin where reading began") {
      const begun = new FirstMessages();
      for (const message of log.read(before, 1)) begun.take(message);
      this.#primary!.learnFirst(begun.sequences);
      return;
    }
    time.after(log.delayMs() + 500, () => {
      if (!this.#alive(life)) return;
      if (!this.connection.reaches) {
        this.#readFirstMessages(life, before);
        return;
      }
      const found = new FirstMessages();
      for (const message of log.read(log.first, Math.max(0, before - log.first + 1))) found.take(message);
      this.#primary!.learnFirst(found.sequences);
    });
  }

  #purge(below: number): void {
    const { time, log, bug } = this.#group;
    const n = this.#primary!.acknowledgedN;
    const place = bug === "the place of a purge is computed" ? this.#leadSequence + n - this.#leadN : below;
    const { losses } = log;
    time.after(log.delayMs(), () => {
      if (this.connection.reaches && log.losses === losses) log.purge(place);
    });
  }

  #onAcknowledged({ numbers, idsLent }: OfferedBatch, message: number): void {
    this.#acknowledgedMessage = message;
    this.#acknowledged = Math.max(this.#acknowledged, numbers[0]!);
    this.#lentUpTo = Math.max(this.#lentUpTo, idsLent);
    while (this.#replies[0] !== undefined && this.#replies[0].n <= this.#acknowledged)
      this.#replies.shift()!.tell();
  }

  #leadEnded(how: string, why: string): void {
    const { witness, time } = this.#group;
    witness.log(`node ${this.number} ends its lead: ${how}, ${why}`);
    if (how === "log-lost") witness.fail(`node ${this.number}: ${how}, ${why}`);
    this.stop();
    time.after(200, () => (this.isUp ? undefined : this.start()));
  }

  /** A turn of the log's thread and of the clock. */
  #turn(life: number): void {
    const { time, random } = this.#group;
    if (!this.#alive(life) || this.role !== "leads") return;
    const storage = this.storage!;
    const { nowMs } = time;
    storage.lendIds(this.#nextId - 1);
    storage.flush(nowMs);
    const before = storage.oldestSegment;
    storage.work(nowMs);
    if (storage.oldestSegment > before) this.compactions++;
    if (storage.failure !== undefined) throw storage.failure;
    this.#primary!.tick(nowMs);
    if (this.#alive(life)) time.after(5 + random.below(40), () => this.#turn(life));
  }

  get #mayServe(): boolean {
    const { nowMs } = this.#group.time;
    return this.role === "leads" && nowMs >= this.#mayServeAtMs && nowMs < this.#primary!.serveUntilMs;
  }

  /** Clients send some commands. */
  command(): void {
    const { random, witness, bug } = this.#group;
    if (!this.isUp || !this.#mayServe || this.#primary!.pendingBatches > BACKLOG_MAX) return;
    witness.serves(this, this.epoch);
    for (let left = 1 + random.below(3); left > 0; left--) {
      if (this.jobs.size > 0 && random.chance(this.jobs.size > 40 ? 0.7 : 0.42)) this.#delete();
      else this.#put();
    }
    if (bug === "a reply leaves before the ack") for (const { tell } of this.#replies.splice(0)) tell();
    if (random.chance(0.5)) this.storage!.flush(this.#group.time.nowMs);
  }

  #put(): void {
    const { random, witness, bug } = this.#group;
    const id = this.#nextId;
    const lent =
      bug === "an id is seen before its lending is acknowledged" ? this.storage!.idsLent : this.#lentUpTo;
    if (bug !== "ids are not lent" && id > lent) {
      this.storage!.lendIds(id);
      return;
    }
    this.#nextId++;
    const body = `${witness.nextBody()}`.padEnd(1 + random.below(random.chance(0.1) ? 3000 : 300), "x");
    const bytes = new TextEncoder().encode(body);
    const fields = { ...emptyRecordFields(), id, ttrSeconds: 60, createdAtMs: 1 };
    const bodyAt = encodePutHead(this.#scratch, 0, fields, TUBE, bytes.length);
    this.#scratch.bytes.set(bytes, bodyAt);
    this.jobs.set(id, body);
    witness.put(this, id, body);
    this.#record(bodyAt + bytes.length, () => witness.inserted(id));
  }

  #delete(): void {
    const { random, witness } = this.#group;
    const id = random.pick([...this.jobs.keys()])!;
    this.jobs.delete(id);
    witness.deleting(id);
    this.#record(encodeDelete(this.#scratch.view, 0, id), () => witness.deleted(id));
  }

  #record(length: number, tell: () => void): void {
    this.storage!.append(0, ++this.#appended, this.#scratch.bytes, 0, length);
    this.#replies.push({ n: this.#appended, tell });
  }

  /** It leads, or has all that the one that leads has. */
  get isSettled(): boolean {
    if (this.role === "leads") return true;
    const follower = this.role === "follows" ? this.#follower : undefined;
    return follower?.isCaughtUp === true && follower.isComplete && follower.next === this.#group.log.last + 1;
  }

  get firstSegment(): number {
    const numbers = this.disk.names().map(segmentNumber);
    return Math.min(...numbers.filter((number) => number > 0));
  }

  /** The jobs that a start on a copy of the disk would bring back, now that all is quiet. */
  async jobsOnDisk(): Promise<Map<number, string>> {
    const disk = this.disk.clone();
    const opened = await openBinlog({ ...this.#options, disk });
    const jobs = new Map<number, string>();
    for (const { fields, body } of wholeJobs(opened.jobs(() => 0)))
      jobs.set(fields.id, Buffer.from(body).toString("latin1"));
    opened.storage.close(0);
    return jobs;
  }
}
