// Detects whether nearly all recent commands of a connection went to one shard.

/** The longest streak: an affinity that a few commands to other shards do not end. */
const SETTLED = 64;
/** How many commands of the streak a command to another shard cancels. */
const OTHERS_COUNT = 8;

export class ShardAffinity {
  /** The shard that most commands went to. */
  shard = -1;
  /** Commands to that shard, less what commands to others cancelled; SETTLED at most. */
  streak = 0;

  note(shard: number): void {
    if (shard === this.shard) {
      if (this.streak < SETTLED) this.streak++;
      return;
    }
    this.streak -= OTHERS_COUNT;
    if (this.streak > 0) return;
    this.shard = shard;
    this.streak = 1;
  }

  /** Starts counting anew. */
  forget(): void {
    this.streak = 0;
  }
}
