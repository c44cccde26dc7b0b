// A node of a group that follows: reads the shared log, applies its batches, and tries to lead when
// the leader is gone.

import { assert } from "../base/assert.ts";
import type { GroupNews } from "../message/group.ts";
import { type ChainPlace, logBatchesOf } from "../message/log-batch.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { FollowerCore } from "./follower-core.ts";
import { LeaderWatch } from "./leader-watch.ts";
import { LogReader } from "./log-reader.ts";
import { LOOK_MS, type NodeState, sleep } from "./node-state.ts";
import { appendTail } from "./own-tail.ts";
import { type LogEnds, LogError, type LogMessage } from "./shared-log.ts";

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
