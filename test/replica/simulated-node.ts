// One node of a simulated group: real cores and a real log on an in-memory disk; only threads,
// sockets and clocks are missing.

import { segmentNumber } from "../../src/base/segment-name.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { openFollowLog } from "../../src/binlog/open-follow-log.ts";
import { wholeJobs } from "../../src/binlog/recovery/recovered-jobs.ts";
import { logBatchesOf } from "../../src/message/log-batch.ts";
import { FollowerCore } from "../../src/replica/follower-core.ts";
import { joined } from "../../src/replica/own-tail.ts";
import { Leading } from "./leading.ts";
import { LEASE_MS, NodeState } from "./node-state.ts";
import { FOLLOWERS } from "./planted-followers.ts";

const EXTENT_BYTES = 4096;

export class SimulatedNode extends NodeState {
  readonly leading: Leading = new Leading(this);

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
    this.#follow(life);
  }

  #followEnded(how: string, why: string): void {
    const { witness } = this.group;
    witness.log(`node ${this.number} ends following: ${how}, ${why}`);
    if (how !== "start-anew") witness.fail(`node ${this.number}: ${how}, ${why}`);
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

  #follow(life: number): void {
    const { time, random, log, nodes } = this.group;
    if (!this.alive(life) || this.role !== "follows") return;
    time.after(20 + random.below(60), () => this.#follow(life));
    const follower = this.follower!;
    follower.isComplete = this.followLog!.isComplete;
    if (this.connection.reaches) {
      const known = follower.knownMessage(log.last);
      if (known >= log.first) for (const message of log.read(known, 1)) follower.beginAt(message);
      follower.answered({ first: log.first, last: log.last, bytes: 0, limitBytes: 0 }, time.nowMs);
      if (!this.alive(life)) return;
      if (follower.next > 0)
        for (const message of log.read(follower.next, 1 + random.below(8))) {
          follower.read(message, time.nowMs);
          if (!this.alive(life)) return;
        }
      const leader = nodes[follower.leader - 1];
      if (leader !== undefined && leader !== this && random.chance(0.3))
        follower.seen(leader.number, leader.isUp ? "silent" : "gone");
    }
    this.followLog!.flush(time.nowMs);
    follower.tick(time.nowMs);
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
      else if (bug === "the ack of a LEAD is believed") {
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
    return follower?.isCaughtUp === true && follower.isComplete && follower.next === this.group.log.last + 1;
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
