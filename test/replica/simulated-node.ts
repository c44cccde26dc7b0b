// One node of a simulated group: real cores and a real log on an in-memory disk; only threads,
// sockets and clocks are missing.

import { segmentNumber } from "../../src/base/text.ts";
import { openFollowLog } from "../../src/binlog/following.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { wholeJobs } from "../../src/binlog/recovery/recovered-jobs.ts";
import { type ChainPlace, hasLogBatches, logBatchesOf } from "../../src/message/log-batch.ts";
import { FollowerCore } from "../../src/replica/follower-core.ts";
import { follows, LogError, placeBefore, placeOf } from "../../src/replica/shared-log.ts";
import { joined, LogReader } from "../../src/replica/standby-node.ts";
import { Leading } from "./leading.ts";
import { LEASE_MS, NodeState } from "./node-state.ts";
import { FOLLOWERS } from "./planted-followers.ts";

const EXTENT_BYTES = 4096;
/** As many holes in a row end a node. */
const HOLES_MAX = 5;

export class SimulatedNode extends NodeState {
  readonly leading: Leading = new Leading(this);
  reader: LogReader | undefined;
  /** The next message that it was to read, and how often the log had lost messages by then. */
  #next = 0;
  #losses = 0;

  override async start(): Promise<void> {
    const { random, time, bug, witness } = this.group;
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
    const followLog = await openFollowLog(this.options, 0, EXTENT_BYTES);
    this.followLog = followLog;
    const Core = (bug === undefined ? undefined : FOLLOWERS[bug]) ?? FollowerCore;
    this.follower = new Core({
      host: {
        apply: (batch) => {
          followLog.apply(batch);
        },
        cutAfter: (n) => {
          this.cuts++;
          this.group.witness.log(`node ${this.number} cuts its log behind batch ${n}`);
          if (bug !== "the tail is kept at rejoin") followLog.cutAfter(n);
        },
        appendTail: (after, expectedLast) => this.#appendTail(life, followLog.tail(after), expectedLast),
        tryLead: (tag, expectedLast) => this.#tryLead(life, tag, expectedLast),
        lead: (place, sequence) => {
          time.after(0, () => (this.alive(life) ? this.leading.lead(place, sequence) : undefined));
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
    this.#readLog(life, this.follower);
    time.beside(this.#follow(life));
    this.#tickBetween(life);
  }

  #readLog(life: number, follower: FollowerCore): void {
    const { time, witness } = this.group;
    let holes = 0;
    this.#next = 0;
    this.#losses = this.group.log.losses;
    const reader = new LogReader(follower, {
      log: this.connection,
      nowMs: () => time.nowMs,
      isFollowing: () => this.alive(life) && this.role === "follows",
      isFull: () => false,
      room: () => Promise.resolve(),
      onEnds: () => {},
      hasRead: () => {
        holes = 0;
      },
      readFailed: (error) => {
        if (!(error instanceof LogError)) throw error;
        if (error.kind === "hole" && ++holes > HOLES_MAX)
          witness.fail(`node ${this.number}: ${error.message}`);
      },
    });
    this.reader = reader;
    this.connection.onTail = (message) => {
      reader.republished(message);
      this.#checkPlace(life, false);
    };
  }

  #followEnded(how: string, why: string): void {
    const { witness } = this.group;
    witness.log(`node ${this.number} ends following: ${how}, ${why}`);
    if (how !== "start-anew" || this.#isContinued) witness.fail(`node ${this.number}: ${how}, ${why}`);
    this.startsAnew++;
    this.stop();
    for (const name of this.disk.names()) this.disk.unlink(name);
    this.disk.syncFolder();
    this.group.time.after(100, () => (this.isUp ? undefined : this.start()));
  }

  crash(): void {
    this.group.witness.log(`node ${this.number} crashes (${this.role})`);
    this.stop();
    this.disk.crash(this.group.random);
  }

  async #follow(life: number): Promise<void> {
    const { time, random, nodes } = this.group;
    if (!this.alive(life) || this.role !== "follows") return;
    const follower = this.follower!;
    await this.reader!.look();
    if (!this.alive(life) || this.role !== "follows") return;
    this.#checkPlace(life, false);
    const leader = nodes[follower.leader - 1];
    if (this.connection.reaches && leader !== undefined && leader !== this && random.chance(0.3))
      follower.seen(leader.number, leader.isUp ? "silent" : "gone");
    this.followLog!.flush(time.nowMs);
    this.#tick(life);
    time.after(20 + random.below(60), () => time.beside(this.#follow(life)));
  }

  /** The checks on the leader run beside the looks at the log, and also try to lead. */
  #tickBetween(life: number): void {
    const { time, random } = this.group;
    if (!this.alive(life) || this.role !== "follows") return;
    this.#tick(life);
    time.after(20 + random.below(100), () => this.#tickBetween(life));
  }

  #tick(life: number): void {
    if (!this.alive(life) || this.role !== "follows" || this.reader!.isReading) return;
    this.follower!.isComplete = this.followLog!.isComplete;
    this.follower!.tick(this.group.time.nowMs);
    this.#checkPlace(life, true);
  }

  /**
   * A standby that keeps up reads on, whatever is purged or republished meanwhile. It searches for
   * its place again only before it tries to lead, after an answer that was really stale, or if the
   * log has lost messages.
   */
  #checkPlace(life: number, isTick: boolean): void {
    if (!this.alive(life) || this.role !== "follows") return;
    const { log, witness } = this.group;
    const { next, behind } = this.follower!;
    if (behind < 0) witness.fail(`node ${this.number} is ${behind} messages behind`);
    if (next < this.#next) {
      const fellBehind = this.#next < log.first;
      const isExcused = isTick || fellBehind || this.connection.sawStale || log.losses !== this.#losses;
      if (!isExcused)
        witness.fail(`node ${this.number} has read up to message ${this.#next - 1}, and reads the log again`);
      this.connection.sawStale = false;
      this.#losses = log.losses;
    }
    this.#next = next;
  }

  /** Whether the shared log still has the batch after the last one of this node's log. */
  get #isContinued(): boolean {
    const { log } = this.group;
    const own = this.followLog!.place;
    let place: ChainPlace | undefined;
    for (const { bytes } of log.read(log.first, Number.POSITIVE_INFINITY))
      for (const { header } of hasLogBatches(bytes) ? logBatchesOf(bytes)! : []) {
        place ??= placeBefore(header);
        if (!follows(place, header)) continue;
        if (header.n === own.n + 1 && header.previousTag === own.tag) return true;
        place = placeOf(header);
      }
    return false;
  }

  /** One message after the other, each once the one before is in the log. */
  #appendTail(life: number, batches: readonly Uint8Array[], expectedLast: number): void {
    const messages = [...joined(batches)];
    this.group.witness.log(`node ${this.number} appends its tail, ${batches.length} batches, again`);
    const next = (last: number): void => {
      const message = messages.shift();
      if (message === undefined) {
        this.follower!.tailSent();
        return;
      }
      this.connection.append(message, last, (answer) => {
        if (!this.alive(life) || this.role !== "follows") return;
        if ("refused" in answer) this.follower!.tailSent();
        else next(answer.sequence);
      });
    };
    this.tails++;
    next(expectedLast);
  }

  #tryLead(life: number, tag: number, expectedLast: number): void {
    const { witness, bug, time } = this.group;
    const lead = this.followLog!.leadBatch(this.number, tag);
    const { header } = logBatchesOf(lead)![0]!;
    witness.log(
      `node ${this.number} tries to lead: epoch ${header.epoch}, batch ${header.n}, behind ${expectedLast}`,
    );
    const sentAtMs = this.group.time.nowMs;
    this.leadSentAtMs = sentAtMs;
    this.connection.append(lead, expectedLast, (answer) => {
      if (!this.alive(life) || this.role !== "follows") return;
      if ("refused" in answer) this.follower!.refused();
      else time.beside(this.reader!.look());
      if ("sequence" in answer && bug === "the ack of a LEAD is believed") {
        this.followLog!.apply({ header, bytes: lead });
        const place = { epoch: header.epoch, n: header.n, tag };
        time.after(0, () => (this.alive(life) ? this.leading.lead(place, answer.sequence) : undefined));
      }
    });
  }

  /** It leads, or has all that the one that leads has. */
  get isSettled(): boolean {
    if (this.role === "leads") return true;
    const follower = this.role === "follows" ? this.follower : undefined;
    return (
      follower?.isCaughtUp === true &&
      follower.isComplete &&
      follower.next === this.group.log.last + 1 &&
      follower.behind === 0
    );
  }

  get firstSegment(): number {
    const numbers = this.disk.names().map(segmentNumber);
    return Math.min(...numbers.filter((number) => number > 0));
  }

  /** The jobs that a start on a copy of the disk would bring back, now that all is quiet. */
  async jobsOnDisk(): Promise<Map<number, string>> {
    const disk = this.disk.clone();
    const opened = await openBinlog({ ...this.options, disk });
    const jobs = new Map<number, string>();
    for (const { fields, body } of wholeJobs(opened.jobs(() => 0)))
      jobs.set(fields.id, Buffer.from(body).toString("latin1"));
    opened.storage.close(0);
    return jobs;
  }
}
