// The order in which a connection picks jobs from the tubes that it watches, and their weights.
// Only connections that have given a weight or chosen an order have such an object.

import { ReserveOrder } from "../../protocol/reserve-order.ts";

export class WatchOrder {
  order: ReserveOrder = ReserveOrder.Strict;
  /** The latest floor of the turns that is known here: see engine/waiting/tube-turns.ts. */
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
