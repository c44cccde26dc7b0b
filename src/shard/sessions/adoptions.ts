// Sessions of connections that move between acceptors. Each is kept under the number of its move
// until it is adopted.
//
// Detach comes from the acceptor that the connection leaves, and Adopt from its new acceptor,
// through a different ring. Neither acceptor waits for the shard, so Adopt may be read first. The
// shard then reads nothing more from that ring until Detach has arrived, because the next messages
// may be commands of this session. The wait is short: Detach was sent before the connection.

import { assert } from "../../base/assert.ts";
import type { ShardSession } from "./shard-session.ts";

/** An Adopt that waits for its Detach. */
interface Adoption {
  readonly number: number;
  readonly slot: number;
}

export class Adoptions {
  /** By the number of the move. */
  readonly #detached = new Map<number, ShardSession>();
  /** By port; undefined if none waits. */
  readonly #waiting: (Adoption | undefined)[];
  /** Adopts that wait. */
  waitingCount = 0;
  readonly #place: (session: ShardSession, port: number, slot: number) => void;

  /** `place` assigns a session to a slot of a port. */
  constructor(ports: number, place: (session: ShardSession, port: number, slot: number) => void) {
    this.#waiting = Array.from({ length: ports }, () => undefined);
    this.#place = place;
  }

  /** Returns whether nothing may be taken from the ring of a port. */
  isWaiting(port: number): boolean {
    assert(port < this.#waiting.length, "a port of the shard takes sessions");
    return this.#waiting[port] !== undefined;
  }

  /** Takes a session that has lost its slot. */
  detached(number: number, session: ShardSession): void {
    assert(!this.#detached.has(number), "a move has a number of its own");
    const port = this.waitingCount === 0 ? -1 : this.#waiting.findIndex((each) => each?.number === number);
    if (port < 0) {
      this.#detached.set(number, session);
      return;
    }
    const { slot } = this.#waiting[port]!;
    this.#waiting[port] = undefined;
    this.waitingCount--;
    assert(this.waitingCount >= 0, "Adopts that wait are counted");
    this.#place(session, port, slot);
  }

  /** Gives a session its new slot, now or when it has lost the old one. */
  adopt(number: number, port: number, slot: number): void {
    const session = this.#detached.get(number);
    if (session === undefined) {
      assert(this.#waiting[port] === undefined, "nothing is taken after an Adopt that waits");
      this.#waiting[port] = { number, slot };
      this.waitingCount++;
      assert(this.waitingCount <= this.#waiting.length, "a port waits for one Adopt");
      return;
    }
    this.#detached.delete(number);
    this.#place(session, port, slot);
  }
}
