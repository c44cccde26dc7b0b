// A node of a group that follows: reads the shared log, applies its batches, and tries to lead when
// the leader is gone.

import { connect } from "node:net";
import { assert } from "../base/assert.ts";
import type { GroupNews } from "../message/group.ts";
import { type ChainPlace, LOG_BATCH_BYTES_MAX, logBatchesOf } from "../message/log-batch.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { FollowerCore } from "./follower-core.ts";
import { parseReport } from "./node-report.ts";
import { LOOK_MS, type NodeState, sleep } from "./node-state.ts";
import { type LogEnds, LogError, type LogMessage, type SharedLog } from "./shared-log.ts";

// Checks whether a process listens on an address, as proof that another node is dead: if its kernel
// refuses the connection, the machine is up and the process is not.

const CONNECT_MS = 1000;

type Listens = "yes" | "refused" | "unknown";

/** `address` is "host:port". */
export function listensOn(address: string): Promise<Listens> {
  const at = address.lastIndexOf(":");
  const host = address.slice(0, at).replace(/^\[|\]$/g, "");
  const port = Number(address.slice(at + 1));
  // The address comes from another node's report.
  if (!(port > 0 && port < 65_536) || host === "") return Promise.resolve("unknown");
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CONNECT_MS });
    const end = (answer: Listens): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on("connect", () => end("yes"));
    socket.on("timeout", () => end("unknown"));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      end(error.code === "ECONNREFUSED" ? "refused" : "unknown"),
    );
  });
}

// Checks whether the leader is alive: asks it through the log servers, and connects to its address.
// Several checks may run at once. A question asked just before a process died is never answered,
// and must not delay later checks.

export class LeaderWatch {
  readonly #log: Pick<SharedLog, "ask">;
  readonly #ownAddress: string;
  /**
   * For the last leader asked: its address, and whether that address ever accepted a connection.
   */
  #node = 0;
  #address = "";
  #listened = false;
  /** Numbers of checks; the result of an earlier check is ignored after that of a later one. */
  #looks = 0;
  #found = 0;

  constructor(log: Pick<SharedLog, "ask">, ownAddress: string) {
    this.#log = log;
    this.#ownAddress = ownAddress;
  }

  /**
   * Reports the result to the core. A refused connection counts only at an address that was open
   * before, because a firewall also refuses.
   */
  async look(follower: FollowerCore): Promise<void> {
    const { leader } = follower;
    if (leader === 0) return;
    if (leader !== this.#node) {
      this.#node = leader;
      this.#address = "";
      this.#listened = false;
    }
    const look = ++this.#looks;
    const { heardAtMs } = follower;
    const answer = await this.#log.ask(leader);
    if (answer === "gone") return this.#knock(follower, leader, look, heardAtMs);
    if (!this.#counts(leader, look)) return;
    if (answer === undefined) return follower.seen(leader, "silent");
    follower.seen(leader, "there");
    const report = parseReport(answer);
    if (report === undefined) return;
    if (report.address !== this.#address) {
      this.#address = report.address;
      this.#listened = false;
    }
    if (report.role === "opening") follower.leaderLoads();
    if (report.role !== "primary" || this.#listened) return;
    const listens = (await listensOn(report.address)) === "yes";
    if (listens && leader === this.#node && report.address === this.#address) this.#listened = true;
  }

  /** The leader's process is no longer connected to the log servers. */
  async #knock(follower: FollowerCore, leader: number, look: number, heardAtMs: number): Promise<void> {
    assert(!this.#listened || this.#address !== "", "only a known address has accepted a connection");
    const mayBeDead = this.#listened && this.#address !== this.#ownAddress;
    const isDead = mayBeDead && (await listensOn(this.#address)) === "refused";
    // A leader whose lease expired closes its port; a batch from it meanwhile shows that it may
    // serve again.
    const isSilent = follower.heardAtMs === heardAtMs;
    if (this.#counts(leader, look)) follower.seen(leader, isDead && isSilent ? "gone" : "silent");
  }

  #counts(leader: number, look: number): boolean {
    assert(look <= this.#looks && this.#found <= this.#looks, "a result belongs to a started check");
    if (leader !== this.#node || look < this.#found) return false;
    this.#found = look;
    return true;
  }
}

// Reads the shared log for a standby: looks where it ends, fetches the messages that are missing,
// and takes republished ones.

interface LogReaderHost {
  readonly log: Pick<SharedLog, "ends" | "read">;
  nowMs(): number;
  isFollowing(): boolean;
  /** Whether the local log still has to write too much to take more. */
  isFull(): boolean;
  /** Resolves once the local log has written something. */
  room(): Promise<void>;
  onEnds(ends: LogEnds): void;
  /** All messages that were asked for were read. */
  hasRead(): void;
  readFailed(error: unknown): void;
}

export class LogReader {
  readonly #core: FollowerCore;
  readonly #host: LogReaderHost;
  #looking = false;
  #reading = false;

  constructor(core: FollowerCore, host: LogReaderHost) {
    this.#core = core;
    this.#host = host;
  }

  /** While the node reads messages, it must not search for another place in the log. */
  get isReading(): boolean {
    return this.#reading;
  }

  /** Looks at the end of the log and reads up to it, unless another look is under way. */
  async look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      await this.#lookAtEnds();
    } catch (error) {
      if (this.#host.isFollowing()) this.#host.readFailed(error);
    } finally {
      this.#looking = false;
    }
  }

  async #lookAtEnds(): Promise<void> {
    const { log } = this.#host;
    const core = this.#core;
    // Republished messages may overtake the answer, which then shows less than was read.
    const readBefore = core.lastRead;
    const ends = await log.ends();
    if (!this.#host.isFollowing()) return;
    this.#host.onEnds(ends);
    const known = core.knownMessage(ends.last);
    if (known >= Math.max(1, ends.first))
      for await (const message of log.read(known, known)) core.beginAt(message);
    if (!this.#host.isFollowing()) return;
    core.answered(ends, readBefore, this.#host.nowMs());
    if (core.next === 0 || core.next > ends.last) return;
    await this.#readTo(ends.last);
    if (this.#host.isFollowing()) core.hasRead(this.#host.nowMs());
  }

  async #readTo(last: number): Promise<void> {
    assert(!this.#reading, "a node runs one read at a time");
    this.#reading = true;
    const core = this.#core;
    assert(core.next > 0 && core.next <= last, "a node reads from its next message");
    try {
      for await (const message of this.#host.log.read(core.next, last)) {
        if (!this.#host.isFollowing()) return;
        core.read(message, this.#host.nowMs());
        if (!this.#host.isFollowing()) return;
        while (this.#host.isFull()) await this.#host.room();
      }
      this.#host.hasRead();
    } finally {
      this.#reading = false;
    }
  }

  /** Takes a republished message, if it is the next one. */
  republished({ sequence, bytes }: LogMessage): void {
    if (!this.#host.isFollowing() || this.#reading) return;
    if (sequence !== this.#core.next || this.#host.isFull()) return;
    this.#core.read({ sequence, bytes: bytes.slice() }, this.#host.nowMs());
  }
}

// Appends the end of the local log to the shared log, which lacks it because it was never sent or
// the log servers lost it.

/**
 * Appends the batches in order after message `expectedLast`. Rejects with a LogError if another
 * node was first or the outcome is unknown. Readers ignore duplicates.
 */
export async function appendTail(
  log: Pick<SharedLog, "append">,
  batches: readonly Uint8Array[],
  expectedLast: number,
): Promise<void> {
  let last = expectedLast;
  for (const message of joined(batches)) last = await log.append(message, last);
}

/** Yields messages that join batches of one segment, each as large as a message may be. */
export function* joined(batches: readonly Uint8Array[]): Generator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  let segment = 0;
  for (const batch of batches) {
    const { header } = logBatchesOf(batch)![0]!;
    if (parts.length > 0 && (header.segment !== segment || bytes + batch.length > LOG_BATCH_BYTES_MAX)) {
      yield Buffer.concat(parts);
      parts = [];
      bytes = 0;
    }
    segment = header.segment;
    parts.push(batch);
    bytes += batch.length;
    assert(parts.length === 1 || bytes <= LOG_BATCH_BYTES_MAX, "joined batches fit into a message");
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}

/** Maximum number of concurrent checks on the leader, each of which takes 0.5 to 1.5 s. */
const LEADER_CHECKS_MAX = 16;
/** Maximum bytes in transit to the local log before the node stops reading. */
const APPLYING_BYTES_MAX = 8 * 1024 * 1024;

interface StandbyOptions {
  readonly follows: GroupNews & { news: "follows" };
  /** The node that must start a reseeded group, or 0. */
  readonly seed: number;
  /** Called when the node has the lead from the batch at `place`, which is message `sequence`. */
  readonly onLead: (place: ChainPlace, sequence: number) => void;
  /** Called with the first and last message of the shared log. */
  readonly onEnds: (ends: LogEnds) => void;
  /** Called after each look at the shared log. */
  readonly onLook: () => void;
}

export class StandbyNode {
  readonly core: FollowerCore;
  /** The time when the last LEAD was sent, on the monotonic clock. */
  leadSentAtMs = 0;
  readonly #state: NodeState;
  readonly #options: StandbyOptions;
  readonly #watch: LeaderWatch;
  readonly #reader: LogReader;
  #applyingBytes = 0;
  #onApplied: () => void = () => {};
  #leaderChecks = 0;
  /** The message of the shared log after which the local tail belongs. */
  #tailBehind = 0;

  constructor(state: NodeState, options: StandbyOptions) {
    this.#state = state;
    this.#options = options;
    const { node, known, hasOwnJobs, isComplete } = options.follows;
    assert(state.role === "starting", "a node starts to follow once");
    state.role = "standby";
    state.place = known.at(-1) ?? state.place;
    this.core = new FollowerCore({
      host: {
        apply: ({ bytes, header }) => {
          state.place = header;
          this.#applyingBytes += bytes.length;
          state.order({ order: "apply", batches: [bytes.slice()] });
        },
        cutAfter: (n) => {
          state.say("warn", `truncated the log after batch ${n}: the rest was not acknowledged`);
          state.order({ order: "cut", n });
        },
        appendTail: (after, expectedLast, lost) => {
          const what = `the batches after batch ${after} in this server's log`;
          if (lost)
            state.say(
              "warn",
              `the shared log has lost ${what}; no other server has led since, so they are appended again`,
            );
          else
            state.say(
              "info",
              `the shared log lacks ${what}; no other server has led since, so they are appended`,
            );
          this.#tailBehind = expectedLast;
          state.order({ order: "tail", after });
        },
        tryLead: (tag, expectedLast) => state.order({ order: "lead-batch", tag, expectedLast }),
        lead: options.onLead,
        ended: (how, why) => state.end(how, why),
      },
      node,
      own: known,
      hasOwnJobs,
      seed: options.seed,
      leaseMs: state.options.leaseMs,
      random: Math.random,
    });
    this.core.isComplete = isComplete;
    this.#reader = new LogReader(this.core, {
      log: state.log,
      nowMs: monotonicMs,
      isFollowing: () => state.isFollowing,
      isFull: () => this.#applyingBytes > APPLYING_BYTES_MAX,
      room: () =>
        new Promise<void>((resolve) => {
          this.#onApplied = resolve;
        }),
      onEnds: options.onEnds,
      hasRead: () => state.hasRead(),
      readFailed: (error) => state.readFailed(error),
    });
    this.#watch = new LeaderWatch(state.log, state.options.address);
  }

  /** Looks at the shared log and the leader until the node leads or ends. */
  async run(): Promise<void> {
    while (this.#state.isFollowing) {
      await this.#reader.look();
      if (!this.#state.isFollowing) return;
      this.#lookAtLeader();
      this.#tryLead();
      // Repeats the message, because the previous one may be lost.
      this.tellKept();
      this.#options.onLook();
      await sleep(LOOK_MS);
    }
  }

  /** Runs beside the loop: while one check waits for a silent leader, others start. */
  #lookAtLeader(): void {
    if (this.#leaderChecks === LEADER_CHECKS_MAX) return;
    this.#leaderChecks++;
    this.#watch
      .look(this.core)
      .catch((error: Error) => this.#state.say("warn", `cannot check the primary: ${error.message}`))
      .then(() => this.#tryLead())
      .finally(() => {
        assert(this.#leaderChecks > 0, "each check is counted");
        this.#leaderChecks--;
      });
  }

  #tryLead(): void {
    if (this.#state.isFollowing && !this.#reader.isReading) this.core.tick(monotonicMs());
  }

  /** A message arrived by republish. */
  onTail(message: LogMessage): void {
    this.#reader.republished(message);
  }

  /** The log has applied batches of the shared log. */
  applied({ bytes, isComplete }: GroupNews & { news: "applied" }): void {
    this.#applyingBytes -= bytes;
    assert(this.#applyingBytes >= 0, "the bytes in transit are never negative");
    this.core.isComplete = isComplete;
    this.#onApplied();
  }

  /** Reports durable batches that the shared log confirms; others may still be cut. */
  tellKept(): void {
    const kept = this.core.keptOf(this.#state.kept);
    if (kept > 0 && this.#state.role === "standby") this.#state.log.tellKept(kept);
  }

  /** Appends the end of the local log, which the shared log lacks. */
  async sendTail(batches: readonly Uint8Array[]): Promise<void> {
    assert(batches.length > 0, "a longer local log has batches after the shared one");
    try {
      await appendTail(this.#state.log, batches, this.#tailBehind);
    } catch (error) {
      if (!(error instanceof LogError)) throw error;
      if (error.kind !== "refused")
        this.#state.say("warn", `cannot append the end of this server's log: ${error.message}`);
    }
    this.core.tailSent();
  }

  /** Appends a LEAD. The node leads when it reads its own LEAD first. */
  async sendLead({ bytes, expectedLast }: GroupNews & { news: "lead-batch" }): Promise<void> {
    const batches = logBatchesOf(bytes);
    assert(batches?.length === 1, "a LEAD is one complete batch");
    const { header } = batches[0]!;
    const follower = this.core;
    const isNext = header.n === follower.place.n + 1;
    // Another message came first, so readers would ignore this LEAD.
    if (this.#state.role !== "standby" || !isNext) return follower.refused();
    this.#state.say("info", `tries to take the lead: epoch ${header.epoch}`);
    this.leadSentAtMs = monotonicMs();
    try {
      await this.#state.log.append(bytes, expectedLast);
      if (this.#state.role === "standby") await this.#reader.look();
    } catch (error) {
      if (!(error instanceof LogError)) throw error;
      if (error.kind === "refused") follower.refused();
    }
  }
}
