// A tube: its jobs by state, its statistics and its pause.

import { assert, CHECKED } from "../../base/assert.ts";
import { asciiBytes } from "../../base/bytes.ts";
import { NO_COUNTS, type PolicyCounts } from "../../schema/tube.ts";
import { JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import { Timer } from "../queues/heaps.ts";
import { GroupedReady, type JobGroups } from "../queues/job-groups.ts";
import { DeadlineHeap, ExpiryHeap, JobList, ReadyHeap } from "../queues/job-heaps.ts";
import type { RetiredLimiters } from "../queues/token-bucket.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import type { TubePolicy } from "./tube-settings.ts";

/** Measures the jobs of a tube. */
export interface TubeMeter {
  /** A job was ready for this time before a client reserved it. */
  waited(ms: number): void;
  /** Its holder released, buried or deleted a job after this time. */
  held(ms: number): void;
}

export class Tube {
  readonly name: string;
  /** Creation order over all shards; list-tubes sorts by it. */
  readonly sequence: number;
  /** Index in the table of tubes, stored in each job's `tube` column. */
  readonly index: number;
  /** Numbers of reserved and buried jobs; the heaps count ready and delayed ones. */
  reservedJobs = 0;
  buriedJobs = 0;
  urgentJobs = 0;
  /** Number of jobs in transit to another shard; they belong to this tube until they arrive. */
  movingJobs = 0;
  /** Number of those that were held; limits count them as held until they arrive. */
  handedJobs = 0;
  /** What its held jobs cost beyond 1 each. */
  extraWork = 0;
  totalJobs = 0;
  /** Bytes of the bodies of its jobs. */
  bytes = 0;
  /** Number of successful deletes of the tube's jobs. */
  deletes = 0;
  /**
   * How often the tube's jobs were reserved, released, buried and kicked, and how often they timed
   * out.
   */
  reserves = 0;
  releases = 0;
  buries = 0;
  kicks = 0;
  timeouts = 0;
  /** How many reservations of its jobs ended with the connection of their worker. */
  disconnects = 0;
  /**
   * The job with the most of them lately, which may have left since (Failures.lostJobOf), and when
   * that last happened.
   */
  lostJob = 0;
  lostAtMs = 0;
  pauses = 0;
  /** Length of the current pause, or 0. */
  pauseSeconds = 0;
  /** Numbers of connections that use the tube, and that watch it. */
  using = 0;
  watching = 0;
  /** Position among the tubes with ready jobs, or -1. */
  readyAt = -1;
  /** Whether the tube gives jobs: it is not paused, and its rate limiter allows it. */
  open = true;
  /** Only with settings that limit reservations. */
  limiter: RateLimiter | undefined = undefined;
  #limiterTimer: Timer<Tube> | undefined;
  /** Only for tubes whose times are requested. */
  meter: TubeMeter | undefined = undefined;
  /** The tube's settings, if any. */
  policy: TubePolicy | undefined = undefined;
  #policyCounts: PolicyCounts | undefined;
  #nameBytes: Uint8Array | undefined;
  #expiry: ExpiryHeap | undefined;
  #expiryTimer: Timer<Tube> | undefined;
  readonly #jobs: JobTable;
  #ready: ReadyHeap | undefined;
  /** The groups of its jobs; created with the first job that has one. */
  groups: JobGroups | undefined = undefined;
  #delayed: DeadlineHeap | undefined;
  #buried: JobList | undefined;
  #pauseTimer: Timer<Tube> | undefined;
  #delayTimer: Timer<Tube> | undefined;

  constructor(name: string, sequence: number, index: number, jobs: JobTable) {
    assert(sequence >= 0 && index >= 0, "the numbers of a tube are not negative");
    this.name = name;
    this.sequence = sequence;
    this.index = index;
    this.#jobs = jobs;
  }

  // There may be very many tubes, and most never need the following parts, so each is created at
  // its first use.

  /** How many ends of its jobs are kept. */
  get keepFinished(): number {
    return this.policy === undefined ? 0 : this.policy.keepFinished;
  }

  get ready(): ReadyHeap {
    return (this.#ready ??= new ReadyHeap(this.#jobs));
  }

  /**
   * Returns the tube's groups, created if necessary, with its limits of groups. `buckets` has those
   * of groups without jobs. Calls `onChanged` at each change that may affect which job is next.
   */
  makeGroups(buckets: RetiredLimiters, onChanged: (tube: Tube) => void): JobGroups {
    if (this.groups === undefined) {
      assert(
        this.readyAt >= 0 === this.jobsIn(JobState.Ready) > 0,
        "a tube with ready jobs is listed among such tubes",
      );
      const grouped = new GroupedReady(this.#jobs, this.ready, this.inWork);
      this.#ready = grouped;
      this.groups = grouped.groups;
      this.groups.buckets = buckets;
      this.groups.tube = this.name;
      this.groups.limit(this.policy);
      this.groups.onChanged = () => onChanged(this);
    }
    return this.groups;
  }

  /** Due when the rate limiter or a group has tokens again. */
  get limiterTimer(): Timer<Tube> {
    return (this.#limiterTimer ??= new Timer<Tube>(this));
  }

  get delayed(): DeadlineHeap {
    return (this.#delayed ??= new DeadlineHeap(this.#jobs));
  }

  /** When its oldest ready job became ready, ms; Infinity without one. */
  get oldestReadyAtMs(): number {
    return this.#ready?.firstSinceMs ?? Number.POSITIVE_INFINITY;
  }

  /** When the first of its buried jobs was buried, ms; Infinity without one. */
  get oldestBuriedAtMs(): number {
    return this.#buried?.firstSinceMs ?? Number.POSITIVE_INFINITY;
  }

  /** Oldest burial first. */
  get buried(): JobList {
    return (this.#buried ??= new JobList(this.#jobs));
  }

  /** Ready and delayed jobs with a TTL. */
  get expiry(): ExpiryHeap {
    return (this.#expiry ??= new ExpiryHeap(this.#jobs));
  }

  /** Due when the first of them expires. */
  get expiryTimer(): Timer<Tube> {
    return (this.#expiryTimer ??= new Timer<Tube>(this));
  }

  /** When its best ready job expires, ms; Infinity if there is none, or if it never expires. */
  get topExpiresAtMs(): number {
    if (this.#expiry === undefined || this.#expiry.size === 0 || this.jobsIn(JobState.Ready) === 0)
      return Number.POSITIVE_INFINITY;
    const { top } = this.ready;
    if (top === NO_SLOT) return Number.POSITIVE_INFINITY;
    const atMs = this.#jobs.pageOf(top).extras?.expiresAtMs[rowOf(top)] ?? 0;
    return atMs === 0 ? Number.POSITIVE_INFINITY : atMs;
  }

  get counts(): PolicyCounts {
    return (this.#policyCounts ??= { ...NO_COUNTS });
  }

  /** The same, if anything was ever counted. */
  get countsIfAny(): PolicyCounts | undefined {
    return this.#policyCounts;
  }

  get nameBytes(): Uint8Array {
    return (this.#nameBytes ??= asciiBytes(this.name));
  }

  /** What the jobs cost that count against limits of held jobs. */
  get inWork(): number {
    return this.reservedJobs + this.handedJobs + this.extraWork;
  }

  /** Number of jobs in all states. */
  get jobs(): number {
    if (CHECKED) assert(this.handedJobs <= this.movingJobs, "held jobs that move are among those in transit");
    const queued = this.jobsIn(JobState.Ready) + this.jobsIn(JobState.Delayed);
    return this.reservedJobs + this.movingJobs + this.buriedJobs + queued;
  }

  get pauseTimer(): Timer<Tube> {
    return (this.#pauseTimer ??= new Timer<Tube>(this));
  }

  /** Due when the first delayed job becomes ready. */
  get delayTimer(): Timer<Tube> {
    return (this.#delayTimer ??= new Timer<Tube>(this));
  }

  get paused(): boolean {
    return this.#pauseTimer !== undefined && this.#pauseTimer.position >= 0;
  }

  jobsIn(state: JobState): number {
    if (state === JobState.Ready) return this.#ready?.size ?? 0;
    if (state === JobState.Delayed) return this.#delayed?.size ?? 0;
    if (state === JobState.Moving) return this.movingJobs;
    return state === JobState.Reserved ? this.reservedJobs : this.buriedJobs;
  }

  /**
   * Whether a connection uses or watches the tube, or a job is in it. The engine keeps `default` in
   * any case.
   */
  get referenced(): boolean {
    if (CHECKED)
      assert(
        this.readyAt >= 0 === this.jobsIn(JobState.Ready) > 0,
        "a tube with ready jobs is listed among such tubes",
      );
    return (
      this.using > 0 ||
      this.watching > 0 ||
      this.reservedJobs > 0 ||
      this.movingJobs > 0 ||
      this.buriedJobs > 0 ||
      this.jobsIn(JobState.Ready) > 0 ||
      this.jobsIn(JobState.Delayed) > 0
    );
  }
}
