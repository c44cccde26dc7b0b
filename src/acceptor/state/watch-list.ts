// The tubes that a connection watches, in beanstalkd's order: new tubes are appended, and on ignore
// the last one moves into the gap.

import { asciiBytes, latin1, shardOfTube } from "../../base/bytes.ts";
import { ReserveOrder } from "../../protocol/request.ts";

// A tube, as connections refer to it: the name and the shard that the tube lives on.

export class TubeRef {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly shard: number;

  constructor(name: string, shards: number) {
    this.name = name;
    this.bytes = asciiBytes(name);
    this.shard = shardOfTube(this.bytes, 0, this.bytes.length, shards);
  }

  /** Returns whether the name is `bytes[start, end)`. */
  is(bytes: Uint8Array, start: number, end: number): boolean {
    if (end - start !== this.bytes.length) return false;
    for (let i = 0; i < this.bytes.length; i++) if (bytes[start + i] !== this.bytes[i]) return false;
    return true;
  }
}

/** Up to this many tubes, a linear search is faster than building a string to look up. */
const LOOKED_AT_MAX = 8;

export class WatchList {
  readonly #tubes: TubeRef[] = [];
  /** Position by name, while there are more than LOOKED_AT_MAX. */
  #positions: Map<string, number> | undefined;
  /** Total length of all names. */
  nameBytes = 0;
  /** The number of watched tubes on each shard. */
  readonly #perShard: Int32Array;
  /** The number of shards with at least one. */
  shardCount = 0;

  constructor(shards: number) {
    this.#perShard = new Int32Array(shards);
  }

  get size(): number {
    return this.#tubes.length;
  }

  get tubes(): readonly TubeRef[] {
    return this.#tubes;
  }

  /** Returns the position of the tube with this name, or -1. */
  find(bytes: Uint8Array, start: number, end: number): number {
    if (this.#positions !== undefined) return this.#positions.get(latin1(bytes, start, end)) ?? -1;
    for (let i = 0; i < this.#tubes.length; i++) if (this.#tubes[i]!.is(bytes, start, end)) return i;
    return -1;
  }

  add(tube: TubeRef): void {
    this.#tubes.push(tube);
    this.nameBytes += tube.bytes.length;
    if (this.#positions !== undefined) this.#positions.set(tube.name, this.#tubes.length - 1);
    else if (this.#tubes.length > LOOKED_AT_MAX)
      this.#positions = new Map(this.#tubes.map((each, position) => [each.name, position]));
    const count = this.#perShard[tube.shard]!;
    if (count === 0) this.shardCount++;
    this.#perShard[tube.shard] = count + 1;
  }

  removeAt(position: number): void {
    const tube = this.#tubes[position]!;
    const last = this.#tubes.pop()!;
    this.nameBytes -= tube.bytes.length;
    this.#positions?.delete(tube.name);
    if (last !== tube) {
      this.#tubes[position] = last;
      this.#positions?.set(last.name, position);
    }
    if (this.#tubes.length <= LOOKED_AT_MAX) this.#positions = undefined;
    const count = this.#perShard[tube.shard]! - 1;
    if (count === 0) this.shardCount--;
    this.#perShard[tube.shard] = count;
  }

  watches(shard: number): boolean {
    return this.#perShard[shard]! > 0;
  }

  /** The shard of the watched tubes, if they are all on one. */
  get onlyShard(): number {
    return this.#tubes[0]!.shard;
  }
}

// The order in which a connection picks jobs from the tubes that it watches, and their weights.
// Only connections that have given a weight or chosen an order have such an object.

export class WatchOrder {
  order: ReserveOrder = ReserveOrder.Strict;
  /** The latest floor of the turns that is known here: see engine/state/tube-turns.ts. */
  floor = 0;
  /** The floor that the shards were asked with. */
  #asked = 0;
  /** Digits of all weights. */
  weightDigits = 0;
  /** Weights by tube; a tube without one has 1. */
  readonly #weights = new Map<string, number>();

  /** The number of tubes with a weight. */
  get weightedTubes(): number {
    return this.#weights.size;
  }

  /** Whether it determines the choice of jobs, or only remembers weights. */
  get decides(): boolean {
    return this.order !== ReserveOrder.Strict;
  }

  weightOf(tube: string): number {
    return this.#weights.get(tube) ?? 1;
  }

  weigh(tube: string, weight: number): void {
    this.forget(tube);
    this.#weights.set(tube, weight);
    this.weightDigits += digitsOf(weight);
  }

  /** Forgets the weight of a tube. */
  forget(tube: string): void {
    const weight = this.#weights.get(tube);
    if (weight === undefined) return;
    this.#weights.delete(tube);
    this.weightDigits -= digitsOf(weight);
  }

  begin(order: ReserveOrder): void {
    this.order = order;
    this.floor = 0;
  }

  /** Notes that all shards are being asked with the floor that is known now. */
  ask(): void {
    this.#asked = this.floor;
  }

  /** Notes the floor of a shard. */
  raiseFloor(floor: number): void {
    if (floor > this.floor) this.floor = floor;
  }

  /**
   * Whether some shard knew a later floor than the one that the shards were asked with. Tubes of
   * the others may have to begin at that floor.
   */
  get isOutdated(): boolean {
    return this.floor > this.#asked;
  }

  /**
   * Ends a choice over several shards. By jobs, all turns before the `place` of the last chosen job
   * have been used; by time, only those before the `earliest` turn.
   */
  endChoice(place: number, earliest: number): void {
    this.raiseFloor(this.order === ReserveOrder.Weighted ? place : earliest);
  }
}

const digitsOf = (weight: number): number => `${weight}`.length;
