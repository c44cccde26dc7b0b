// Where the commands of a connection go: whether nearly all of the last ones went to one shard.

/** So many commands to one shard are a habit that a few others do not end. */
const SETTLED = 64;
/** A command for another shard counts against so many. */
const OTHERS_COUNT = 8;

export class ShardAffinity {
  /** Where most of them went. */
  shard = -1;
  /** Commands for it, less what those for others counted: SETTLED at most. */
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

  /** Begins anew. */
  forget(): void {
    this.streak = 0;
  }
}
