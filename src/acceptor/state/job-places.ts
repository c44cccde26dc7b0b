// The ids of jobs and the shards that have them, as all acceptors share them.

import { ControlWord, type Topology } from "../../message/topology.ts";
import { ControlWords } from "../../ring/control-words.ts";
import { JobDirectory, UNKNOWN_SHARD } from "../../ring/job-directory.ts";
import { JobIds } from "../../ring/job-ids.ts";

export class JobPlaces {
  readonly shards: number;
  readonly #control: ControlWords;
  readonly #ids: JobIds;
  /** Sequence numbers of tubes and of changes to tube settings. */
  readonly #sequences: JobIds;
  readonly #scheduleMoves: JobIds;
  readonly #jobMoves: JobIds;
  /** Undefined with one shard, which has all jobs. */
  readonly #directory: JobDirectory | undefined;

  constructor(topology: Topology) {
    this.shards = topology.shards;
    this.#control = new ControlWords(topology.control);
    this.#ids = new JobIds(this.#control.words, ControlWord.JobIds);
    this.#sequences = new JobIds(this.#control.words, ControlWord.TubeSequence);
    this.#scheduleMoves = new JobIds(this.#control.words, ControlWord.ScheduleMoves);
    this.#jobMoves = new JobIds(this.#control.words, ControlWord.JobMoves);
    this.#directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
  }

  /** Takes the next job id, for a job on `shard`. */
  takeJobId(shard: number): number {
    const id = this.#ids.take();
    this.#directory?.set(id, shard);
    return id;
  }

  /** Returns a number greater than all taken before it, on any acceptor. */
  takeSequence(): number {
    return this.#sequences.take();
  }

  /** A number that changes whenever a schedule moves to another shard. */
  get scheduleMoves(): number {
    return this.#scheduleMoves.next;
  }

  /** A number that changes whenever a job arrives on another shard. */
  get jobMoves(): number {
    return this.#jobMoves.next;
  }

  /** Returns the shard of a job, or UNKNOWN_SHARD if every shard has to be asked. */
  shardOfJob(id: number): number {
    return this.#directory === undefined ? 0 : id === 0 ? UNKNOWN_SHARD : this.#directory.find(id);
  }

  /** Returns the job's directory entry, which changes whenever the job arrives on a shard. */
  jobEntry(id: number): number {
    return this.#directory?.entry(id) ?? 0;
  }

  /** Whether a job may have moved to another shard, or may be about to. */
  get jobsMove(): boolean {
    return this.#control.isSet(ControlWord.JobsMove);
  }

  /** Records that a command arrived which may move a job. */
  noteMove(): void {
    if (this.shards > 1) this.#control.set(ControlWord.JobsMove);
  }
}
