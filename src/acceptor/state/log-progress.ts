// The progress of the log, for replies and messages that wait for it: the log of this server and,
// in a group, the shared log.

import type { Topology } from "../../message/topology.ts";
import { LogWord, LogWords } from "../../ring/log-words.ts";

export class LogProgress {
  /** Each shard's last record that is as far in the log as replies require. */
  readonly #logged: LogWords | undefined;
  /** Each shard's last record that is written. */
  readonly #written: LogWords | undefined;
  /** In a group: each shard's last record that is acknowledged in the shared log. */
  readonly #replicated: LogWords | undefined;
  /** The progress of both logs when the held replies were last checked. */
  readonly #loggedThen: Int32Array;
  readonly #replicatedThen: Int32Array;

  constructor({ binlog, shards }: Topology) {
    // Whatever the shared log contains is written, so this wait is implied by the other.
    const isImplied = binlog?.group?.repliesWait === true && binlog.repliesWaitFor === LogWord.Written;
    this.#logged =
      binlog === undefined || isImplied ? undefined : new LogWords(binlog.progress, binlog.repliesWaitFor);
    this.#written = binlog === undefined ? undefined : new LogWords(binlog.progress, LogWord.Written);
    const group = binlog?.group;
    this.#replicated = group?.repliesWait ? new LogWords(group.progress, LogWord.Written) : undefined;
    this.#loggedThen = new Int32Array(shards);
    this.#replicatedThen = new Int32Array(shards);
  }

  /** Returns whether record `number` of a shard is as far in the log as replies require. */
  isLogged(shard: number, number: number): boolean {
    if (this.#replicated !== undefined && !this.#replicated.reached(shard, number)) return false;
    return this.#logged === undefined || this.#logged.reached(shard, number);
  }

  /** Returns whether the log has written record `number` of a shard. */
  isWritten(shard: number, number: number): boolean {
    if (this.#written === undefined || this.#written.reached(shard, number)) return true;
    // The shared log may contain the record before the log thread reports it as written.
    return this.#replicated?.reached(shard, number) ?? false;
  }

  /** Whether the log has advanced since `noteSeen`. */
  get hasMoved(): boolean {
    if (this.#logged?.differFrom(this.#loggedThen)) return true;
    return this.#replicated?.differFrom(this.#replicatedThen) ?? false;
  }

  /** Notes the current progress as seen. */
  noteSeen(): void {
    this.#logged?.copyTo(this.#loggedThen);
    this.#replicated?.copyTo(this.#replicatedThen);
  }
}
