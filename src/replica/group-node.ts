// A node of a group in the event loop of its thread: connects the cores, the shared log and the
// log's thread. The cores make all decisions.

import { batchesOf, type ChainPlace, isOfBatches } from "../message/batch.ts";
import {
  GROUP_ROLES,
  GroupFigure,
  type GroupMembers,
  type GroupNews,
  type GroupOrder,
  type GroupRoleName,
} from "../message/group.ts";
import { binlogGroup, groupBell, type Topology } from "../message/topology.ts";
import { DoorbellOwner } from "../ring/doorbell.ts";
import { hasPaused } from "../ring/lease-word.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { EMPTY, RingReader } from "../ring/ring-reader.ts";
import { FirstMessages } from "./first-messages.ts";
import { type FollowEnd, FollowerCore } from "./follower-core.ts";
import type { GroupUrl } from "./group-url.ts";
import { HeldBatches } from "./held-batches.ts";
import { JetStreamLog, type StreamOptions } from "./jetstream-log.ts";
import { LeaderWatch } from "./leader-watch.ts";
import { memberOf, type NodeReport, parseReport } from "./node-report.ts";
import { oddMembers } from "./odd-members.ts";
import { appendTail } from "./own-tail.ts";
import { type LeadEnd, PrimaryCore } from "./primary-core.ts";
import { readInDoubt } from "./read-in-doubt.ts";
import { type LogEnds, LogError, type LogMessage } from "./shared-log.ts";
import { SharedWords } from "./shared-words.ts";

/** How often a standby queries the log, and a primary checks the time. */
const LOOK_MS = 100;
/** Maximum number of concurrent checks on the leader, each of which takes 0.5 to 1.5 s. */
const LOOKS_MAX = 16;
/** How often a node queries the other members, and a primary the fill level of the log. */
const LOOK_AROUND_MS = 2000;
/** Maximum number of members in a report. */
const MEMBERS_MAX = 32;
/** How often the node reports that it still waits for a log server. */
const STILL_WAITING_MS = 10_000;
const NEARLY_FULL = 0.9;
/** Delay before the node retries an append to a full log. */
const ROOM_MS = 500;
/** Maximum bytes in transit to the local log before the node stops reading. */
const APPLYING_BYTES_MAX = 8 * 1024 * 1024;
/** Maximum number of batches in the primary's core; more stay in the ring. */
const PENDING_BATCHES_MAX = 64;
/** Bytes that stay in the shared log for slow standbys. */
const KEEP_BYTES = 64 * 1024 * 1024;

/** The port to the log's thread. */
export interface OrderPort {
  on(event: "message", listener: (news: GroupNews) => void): unknown;
  postMessage(order: GroupOrder): void;
}

export interface GroupNodeOptions {
  url: GroupUrl;
  /** The address at which other nodes see this node accept clients. */
  address: string;
  leaseMs: number;
  /** Whether a reply also waits until a standby has its change on disk. */
  waitsForStandby: boolean;
  version: string;
}

export type GroupEnd = LeadEnd | FollowEnd | "log-missing" | "log-refused";

/** Messages from the group's thread to the main thread. */
export type NodeNews =
  | { news: "log"; level: "info" | "warn" | "error"; message: string }
  /** This node has the lead, and may serve after the given delay. */
  | { news: "leads"; epoch: number; mayServeInMs: number }
  | { news: "ended"; how: GroupEnd; why: string; folder?: string }
  /** Everything taken so far is acknowledged. */
  | { news: "drained" }
  /** An operator wants another node to lead. */
  | { news: "yield-asked" }
  | ({ news: "members" } & GroupMembers);

export class GroupNode {
  readonly #options: GroupNodeOptions;
  readonly #topology: Topology;
  readonly #port: OrderPort;
  readonly #tell: (news: NodeNews) => void;
  readonly #words: SharedWords;
  readonly #ring: RingReader;
  readonly #figures: Float64Array;
  readonly #doorbell: DoorbellOwner;
  #log!: JetStreamLog;
  #node = 0;
  #seed = 0;
  #role: GroupRoleName = "starting";
  #follower: FollowerCore | undefined;
  #primary: PrimaryCore | undefined;
  #watch: LeaderWatch | undefined;
  #place: ChainPlace = { epoch: 0, n: 0, tag: 0 };
  #reading = false;
  #applyingBytes = 0;
  #onApplied: () => void = () => {};
  #leadSentAtMs = 0;
  #isDoorbellHeard = false;
  #draining = false;
  #ended = false;
  #serving = false;

  constructor(
    options: GroupNodeOptions,
    topology: Topology,
    port: OrderPort,
    tell: (news: NodeNews) => void,
  ) {
    this.#options = options;
    this.#topology = topology;
    this.#port = port;
    this.#tell = tell;
    this.#words = new SharedWords(topology);
    this.#ring = new RingReader(binlogGroup(topology).ring);
    this.#figures = new Float64Array(binlogGroup(topology).figures);
    this.#doorbell = new DoorbellOwner(new Int32Array(topology.doorbells), groupBell(topology));
  }

  async start(): Promise<void> {
    const { url, address } = this.#options;
    this.#port.on("message", (news: GroupNews) => this.#onNews(news));
    this.#say("info", `group ${url.group}: connecting to ${url.servers.join(", ")}`);
    const reminder = setInterval(() => this.#say("warn", "no log server answers yet"), STILL_WAITING_MS);
    try {
      this.#log = await JetStreamLog.connect(url, `runnerbean ${address}`, true);
    } catch (error) {
      this.#end("log-refused", (error as Error).message);
      return;
    } finally {
      clearInterval(reminder);
    }
    this.#log.onDisconnect(() => this.#primary?.doubt(monotonicMs()));
    const { name, version } = this.#log.server;
    this.#say("info", `group ${url.group}: connected to the log server ${name}, nats-server ${version}`);
    const identity = await this.#findGroup();
    if (identity === undefined) return;
    this.#seed = identity.seed;
    this.#order({ order: "follow", groupId: identity.groupId });
  }

  /** Waits as long as the log servers have no leader; never creates a missing stream. */
  async #findGroup(): Promise<Pick<StreamOptions, "groupId" | "seed"> | undefined> {
    for (;;) {
      try {
        return await this.#log.identity();
      } catch (error) {
        if (error instanceof LogError && error.kind === "missing") {
          this.#end("log-missing", "the stream is missing");
          return undefined;
        }
        this.#say("warn", `the log servers do not answer yet: ${(error as Error).message}`);
        await sleep(1000);
      }
    }
  }

  #say(level: "info" | "warn" | "error", message: string): void {
    this.#tell({ news: "log", level, message });
  }

  #order(order: GroupOrder): void {
    this.#port.postMessage(order);
  }

  #onNews(news: GroupNews): void {
    switch (news.news) {
      case "follows":
        void this.#checkName(news);
        break;
      case "applied":
        this.#applyingBytes -= news.bytes;
        if (this.#follower !== undefined) this.#follower.isComplete = news.isComplete;
        this.#onApplied();
        break;
      case "kept":
        this.#kept = news.place;
        this.#tellKept();
        break;
      case "lead-batch":
        void this.#sendLead(news);
        break;
      case "tail":
        void this.#sendTail(news.batches);
        break;
      case "set-aside":
        this.#tell({ news: "ended", how: "start-anew", why: this.#why, folder: news.folder });
    }
  }

  /** A copied directory carries the node number of another server, which then answers to it. */
  async #checkName(news: GroupNews & { news: "follows" }): Promise<void> {
    const answer = await this.#log.ask(news.node);
    if (answer === undefined || answer === "gone") return this.#follow(news);
    this.#say("warn", "the directory is a copy of another server's: it gets a name of its own");
    this.#order({ order: "rename" });
  }

  // --- following ------------------------------------------------------------------------------

  #follow({ node, known, hasOwnJobs, isComplete }: GroupNews & { news: "follows" }): void {
    this.#node = node;
    this.#role = "standby";
    this.#place = known.at(-1) ?? this.#place;
    const follower = new FollowerCore({
      host: {
        apply: ({ bytes, header }) => {
          this.#place = header;
          this.#applyingBytes += bytes.length;
          this.#order({ order: "apply", batches: [bytes.slice()] });
        },
        cutAfter: (n) => {
          this.#say("warn", `what was not acknowledged is cut off behind batch ${n}`);
          this.#order({ order: "cut", n });
        },
        appendTail: (after, expectedLast, lost) => {
          const what = `what stands behind batch ${after} in the own log`;
          if (lost)
            this.#say("warn", `the shared log has lost ${what}; nobody has led since: it is appended again`);
          else this.#say("info", `the shared log lacks ${what}; nobody has led since: it is appended`);
          this.#tailBehind = expectedLast;
          this.#order({ order: "tail", after });
        },
        tryLead: (tag, expectedLast) => this.#order({ order: "lead-batch", tag, expectedLast }),
        lead: (place, sequence) => this.#lead(place, sequence),
        ended: (how, why) => this.#end(how, why),
      },
      node,
      own: known,
      hasOwnJobs,
      seed: this.#seed,
      leaseMs: this.#options.leaseMs,
      random: Math.random,
    });
    follower.isComplete = isComplete;
    this.#follower = follower;
    this.#watch = new LeaderWatch(this.#log, this.#options.address);
    this.#log.answer(node, (question) => this.#answer(question));
    this.#log.follow((message) => this.#onTail(message));
    this.#say(
      "info",
      `follows the group ${this.#options.url.group} as node ${node.toString(16)}, with ${known.length === 0 ? "nothing" : `batch ${this.#place.n}`} in its log`,
    );
    if (this.#seed !== 0 && this.#seed !== node)
      this.#say(
        "info",
        `node ${this.#seed.toString(16)} begins the group, since it was reseeded from that one's directory`,
      );
    void this.#lookLoop();
    void this.#lookAround();
  }

  async #lookLoop(): Promise<void> {
    while (this.#role === "standby" && !this.#ended) {
      await this.#lookAtLog();
      if (this.#role !== "standby" || this.#ended) return;
      this.#lookAtLeader();
      this.#tryLead();
      // Repeats the message, because the previous one may be lost.
      this.#tellKept();
      this.#publishFigures();
      await sleep(LOOK_MS);
    }
  }

  #looksUnderWay = 0;

  /** Runs beside the loop: while one check waits for a silent leader, others start. */
  #lookAtLeader(): void {
    if (this.#looksUnderWay === LOOKS_MAX) return;
    this.#looksUnderWay++;
    this.#watch!.look(this.#follower!)
      .then(() => this.#tryLead())
      .catch((error: Error) => this.#say("warn", `looking for the primary: ${error.message}`))
      .finally(() => {
        this.#looksUnderWay--;
      });
  }

  /** While the node reads messages, it must not search for another place in the log. */
  #tryLead(): void {
    if (this.#role === "standby" && !this.#ended && !this.#reading) this.#follower!.tick(monotonicMs());
  }

  async #lookAtLog(): Promise<void> {
    try {
      const ends = await this.#log.ends();
      this.#noteEnds(ends);
      const follower = this.#follower!;
      const known = follower.knownMessage(ends.last);
      if (known >= Math.max(1, ends.first))
        for await (const message of this.#log.read(known, known)) follower.beginAt(message);
      follower.answered(ends, monotonicMs());
      // Calls overlap, so read only once at a time: the second would miss messages of the first.
      const isNew = follower.next > 0 && follower.next <= ends.last;
      if (isNew && !this.#reading) await this.#readTo(ends.last);
      follower.answered(ends, monotonicMs());
    } catch (error) {
      this.#readFailed(error);
    }
  }

  #readFailed(error: unknown): void {
    if (!(error instanceof LogError)) throw error;
    if (error.kind === "missing") this.#end("log-missing", "the stream is missing");
    else if (error.kind === "hole") this.#holes++;
    if (this.#holes > HOLES_MAX) this.#end("hole", error.message);
  }

  #holes = 0;

  async #readTo(last: number): Promise<void> {
    this.#reading = true;
    const follower = this.#follower!;
    try {
      for await (const message of this.#log.read(follower.next, last)) {
        follower.read(message, monotonicMs());
        if (this.#role !== "standby" || this.#ended) return;
        while (this.#applyingBytes > APPLYING_BYTES_MAX)
          await new Promise<void>((resolve) => {
            this.#onApplied = resolve;
          });
      }
      this.#holes = 0;
    } finally {
      this.#reading = false;
    }
  }

  /** The next message arrived by republish. */
  #onTail(message: LogMessage): void {
    const follower = this.#follower!;
    if (this.#primary !== undefined) this.#heedOtherLead(message);
    if (this.#role !== "standby" || this.#ended || this.#reading) return;
    if (message.sequence !== follower.next || this.#applyingBytes > APPLYING_BYTES_MAX) return;
    follower.read({ sequence: message.sequence, bytes: message.bytes.slice() }, monotonicMs());
  }

  #tailBehind = 0;

  /** Another node leads or tries to: serve nothing until the shared log has settled who leads. */
  #heedOtherLead({ bytes }: LogMessage): void {
    const batches = isOfBatches(bytes) ? batchesOf(bytes) : undefined;
    if (this.#ended || !batches?.some(({ header }) => header.epoch > this.#place.epoch)) return;
    this.#primary!.distrust(monotonicMs());
    this.#drain();
  }

  async #sendTail(batches: readonly Uint8Array[]): Promise<void> {
    try {
      await appendTail(this.#log, batches, this.#tailBehind);
    } catch (error) {
      if (!(error instanceof LogError)) throw error;
      if (error.kind !== "refused") this.#say("warn", `the end of the own log: ${error.message}`);
    }
    this.#follower!.tailSent();
  }

  async #sendLead({ bytes, expectedLast }: GroupNews & { news: "lead-batch" }): Promise<void> {
    const { header } = batchesOf(bytes)![0]!;
    const follower = this.#follower!;
    // Another message came first, so readers would ignore this LEAD.
    if (this.#role !== "standby" || header.n !== follower.place.n + 1) return follower.refused();
    this.#say("info", `tries to take the lead: epoch ${header.epoch}`);
    this.#leadSentAtMs = monotonicMs();
    try {
      await this.#log.append(bytes, expectedLast);
      if (this.#role === "standby") await this.#lookAtLog();
    } catch (error) {
      if (error instanceof LogError && error.kind === "refused") follower.refused();
    }
  }

  // --- leading --------------------------------------------------------------------------------

  #lead(place: ChainPlace, sequence: number): void {
    const { leaseMs } = this.#options;
    const follower = this.#follower!;
    this.#role = "opening";
    this.#place = place;
    this.#words.publishBatch(place.n, sequence);
    this.#primary = new PrimaryCore({
      host: {
        append: (message, expectedLast, ticket) => void this.#append(message, expectedLast, ticket),
        look: (from) => void this.#look(from),
        acknowledged: ({ n, tag, numbers, idsLent }, message) => {
          this.#place = { epoch: place.epoch, n, tag };
          if (!this.#options.waitsForStandby) this.#words.publishAcknowledged(numbers, idsLent);
          else this.#held.hold({ n, numbers, idsLent });
          this.#words.publishBatch(n, message);
        },
        purge: (below) => void this.#purge(below),
        ended: (how, why) => this.#end(how, why),
      },
      place,
      sequence,
      sentAtMs: this.#leadSentAtMs,
      leaseMs,
      keepBytes: KEEP_BYTES,
      firstSequences: follower.firstSequences,
    });
    if (this.#options.waitsForStandby) this.#log.onKept((n) => this.#release(n));
    const mayServeAtMs = follower.mayServeAtOnce ? 0 : follower.heardAtMs + leaseMs;
    this.#order({ order: "lead", place });
    void this.#readFirstMessages(follower.beganAt);
    const mayServeInMs = Math.max(0, mayServeAtMs - monotonicMs());
    this.#tell({ news: "leads", epoch: place.epoch, mayServeInMs });
    this.#drain();
    this.#tick();
  }

  readonly #held = new HeldBatches();

  #release(n: number): void {
    const last = this.#held.release(n);
    if (last === undefined) return;
    this.#words.publishAcknowledged(last.numbers, last.idsLent);
    this.#words.ringAll();
  }

  #kept: ChainPlace = this.#place;

  /** Reports durable batches that the shared log confirms; others may still be cut. */
  #tellKept(): void {
    const kept = this.#follower?.keptOf(this.#kept) ?? 0;
    if (kept > 0 && this.#role === "standby") this.#log.tellKept(kept);
  }

  /** Reads the part of the log that the node skipped before it led, so that it can be purged. */
  async #readFirstMessages(before: number): Promise<void> {
    while (before > 0 && !this.#ended) {
      try {
        const found = new FirstMessages();
        const { first } = await this.#log.ends();
        for await (const message of this.#log.read(first, before)) found.take(message);
        return this.#primary!.learnFirst(found.sequences);
      } catch (error) {
        if (!(error instanceof LogError)) throw error;
        await sleep(LOOK_AROUND_MS);
      }
    }
  }

  #tick(): void {
    if (this.#ended) return;
    this.#primary!.tick(monotonicMs());
    this.#drain();
    this.#publishFigures();
    setTimeout(() => this.#tick(), LOOK_MS);
  }

  async #append(message: Uint8Array, expectedLast: number, ticket: number): Promise<void> {
    const figures = this.#figures;
    const sentAtMs = monotonicMs();
    try {
      const sequence = await this.#log.append(message, expectedLast);
      figures[GroupFigure.Appends]! += 1;
      figures[GroupFigure.AppendMs]! += monotonicMs() - sentAtMs;
      figures[GroupFigure.LogBytes]! += message.length;
      this.#noteRoom();
      this.#checkClock();
      this.#primary!.appended(ticket, sequence, monotonicMs());
    } catch (error) {
      if (error instanceof LogError && error.kind === "full") await this.#waitForRoom();
      this.#primary!.failed(ticket, monotonicMs());
    }
    this.#drain();
  }

  async #look(from: number): Promise<void> {
    const primary = this.#primary!;
    try {
      const { first, last } = await this.#log.ends();
      const messages = await readInDoubt(this.#log, primary, Math.max(from, first), last);
      this.#checkClock();
      primary.looked(messages, last, monotonicMs());
    } catch (error) {
      this.#readFailed(error);
      primary.lookFailed(monotonicMs());
    }
    this.#drain();
  }

  async #purge(below: number): Promise<void> {
    // The next purge includes whatever this one missed.
    await this.#log.purge(below).catch(() => {});
  }

  /** Collects figures for operators: the group's members, and the fill level of the log. */
  async #lookAround(): Promise<void> {
    while (!this.#ended) {
      try {
        await this.#askOthers();
        if (this.#primary !== undefined) this.#noteEnds(await this.#log.ends());
      } catch {
        // The log doesn't answer; the primary detects this by itself.
      }
      await sleep(LOOK_AROUND_MS);
    }
  }

  /** Configuration problems already reported; each is reported once. */
  readonly #told = new Set<string>();

  async #askOthers(): Promise<void> {
    const reports = (await this.#log.askAll()).map(parseReport).filter((report) => report !== undefined);
    if (this.#primary !== undefined)
      this.#figures[GroupFigure.Standbys] = reports.filter(({ role }) => role === "standby").length;
    const { address, leaseMs } = this.#options;
    for (const [key, what] of oddMembers({ node: this.#node, address, leaseMs }, reports, Date.now())) {
      if (this.#told.size === MEMBERS_MAX || this.#told.has(key)) continue;
      this.#told.add(key);
      this.#say("warn", what);
    }
    const members = reports.slice(0, MEMBERS_MAX).map(memberOf);
    this.#tell({ news: "members", group: this.#options.url.group, node: this.#node, members });
  }

  #noteEnds({ bytes, limitBytes }: LogEnds): void {
    this.#figures[GroupFigure.LogBytes] = bytes;
    this.#figures[GroupFigure.LogLimitBytes] = limitBytes;
    this.#noteRoom();
  }

  /** Refuses puts before the log is full, because all other commands continue in the rest. */
  #noteRoom(): void {
    const { LogBytes, LogLimitBytes } = GroupFigure;
    const limitBytes = this.#figures[LogLimitBytes]!;
    if (this.#primary === undefined) return;
    const isFull = limitBytes > 0 && this.#figures[LogBytes]! > NEARLY_FULL * limitBytes;
    this.#words.publishFull(isFull);
    if (isFull) this.#primary.purgeNow();
  }

  /** The log is full. Purge all that can go before the next attempt. */
  async #waitForRoom(): Promise<void> {
    this.#words.publishFull(true);
    this.#primary!.purgeNow();
    await sleep(ROOM_MS);
  }

  #wallAheadMs = Date.now() - monotonicMs();

  /** Detects a suspended machine: another node may lead. Call before any answer counts. */
  #checkClock(): void {
    const nowMs = monotonicMs();
    const aheadMs = Date.now() - nowMs;
    const wasPaused = hasPaused(aheadMs, this.#wallAheadMs);
    this.#wallAheadMs = aheadMs;
    if (!wasPaused || this.#primary === undefined) return;
    this.#say("warn", "the wall clock has jumped: serves again when the shared log has answered");
    this.#primary.distrust(nowMs);
  }

  /** Takes batches from the ring, publishes the progress of the shared log, and waits for more. */
  readonly #drain = (): void => {
    if (this.#ended || this.#primary === undefined) return;
    const primary = this.#primary;
    this.#checkClock();
    const nowMs = monotonicMs();
    while (primary.pendingBatches < PENDING_BATCHES_MAX) {
      const offset = this.#ring.next();
      if (offset === EMPTY) break;
      this.#offer(offset, nowMs);
    }
    if (this.#ring.release()) this.#words.ringBinlog();
    if (this.#words.publishLease(primary.serveUntilMs, nowMs, this.#wallAheadMs) && this.#serving) {
      this.#figures[GroupFigure.Freezes]! += 1;
      this.#say("info", "the shared log answers: serving goes on");
    }
    this.#words.ringAll();
    if (this.#draining && primary.pendingBatches === 0 && !this.#ring.hasMessage) {
      this.#draining = false;
      this.#tell({ news: "drained" });
    }
    this.#listen();
  };

  #offer(offset: number, nowMs: number): void {
    const ring = this.#ring;
    const { shards } = this.#topology;
    const length = ring.uint32[(offset >> 2) + 1]!;
    const numbersAt = (offset >> 3) + 1;
    const numbers = ring.float64.slice(numbersAt, numbersAt + shards);
    const bytesAt = offset + 8 + 8 * shards;
    const bytes = ring.bytes.slice(bytesAt, bytesAt + length);
    const { n, tag, segment, oldest, idsLent } = batchesOf(bytes)![0]!.header;
    this.#primary!.offer({ n, tag, segment, oldest, idsLent, bytes, numbers }, nowMs);
  }

  #listen(): void {
    if (this.#isDoorbellHeard) return;
    this.#doorbell.prepare();
    // While the core is full, messages may wait; the next answer continues.
    if (this.#ring.hasMessage && this.#primary!.pendingBatches < PENDING_BATCHES_MAX) {
      this.#doorbell.cancel();
      setImmediate(this.#drain);
      return;
    }
    const rung = this.#doorbell.sleepAsync();
    if (rung === undefined) {
      setImmediate(this.#drain);
      return;
    }
    this.#isDoorbellHeard = true;
    rung.then(() => {
      this.#isDoorbellHeard = false;
      this.#drain();
    });
  }

  // --- the main thread ------------------------------------------------------------------------

  /** Notes that the node serves clients from here on. */
  serves(): void {
    this.#serving = true;
    this.#role = "primary";
  }

  /** Reports when everything that the log has written is acknowledged. */
  drain(): void {
    this.#draining = true;
    if (this.#primary === undefined) this.#tell({ news: "drained" });
    else this.#drain();
  }

  /** Publishes figures for metrics. */
  #publishFigures(): void {
    const figures = this.#figures;
    const primary = this.#primary;
    const follower = this.#follower;
    figures[GroupFigure.Role] = GROUP_ROLES.indexOf(this.#role);
    figures[GroupFigure.Epoch] = this.#place.epoch;
    figures[GroupFigure.Batch] = this.#place.n;
    figures[GroupFigure.PendingBatches] = primary?.pendingBatches ?? 0;
    figures[GroupFigure.MessagesUnderWay] = primary?.messagesUnderWay ?? 0;
    figures[GroupFigure.Doubts] = primary?.doubts ?? 0;
    figures[GroupFigure.Ignored] = follower?.ignored ?? 0;
    const isBehind = primary === undefined && follower !== undefined;
    figures[GroupFigure.Behind] = isBehind ? Math.max(0, follower.lastKnown + 1 - follower.next) : 0;
  }

  #answer(question: string): string {
    if (question === "yield") {
      if (this.#role === "primary") this.#tell({ news: "yield-asked" });
      return this.#role === "primary" ? "yields" : "no";
    }
    const follower = this.#follower;
    const primary = this.#primary;
    const report: NodeReport = {
      node: this.#node,
      role: this.#role,
      address: this.#options.address,
      epoch: this.#place.epoch,
      n: this.#place.n,
      tag: this.#place.tag,
      mayServe: this.#role === "primary" && (primary?.serveUntilMs ?? 0) > monotonicMs(),
      pendingBatches: primary?.pendingBatches ?? 0,
      messagesUnderWay: primary?.messagesUnderWay ?? 0,
      doubts: primary?.doubts ?? 0,
      ignored: follower?.ignored ?? 0,
      isComplete: follower?.isComplete ?? false,
      behind: primary === undefined && follower !== undefined ? follower.lastKnown + 1 - follower.next : 0,
      pid: process.pid,
      version: this.#options.version,
      leaseMs: this.#options.leaseMs,
      wallMs: Date.now(),
    };
    return JSON.stringify(report);
  }

  #why = "";

  #end(how: GroupEnd, why: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#why = why;
    if (how === "start-anew") this.#order({ order: "set-aside" });
    else this.#tell({ news: "ended", how, why });
  }
}

/** A hole that remains after this many attempts is real. */
const HOLES_MAX = 5;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
