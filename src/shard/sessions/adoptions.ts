// Sessions of connections that move from one acceptor to another: each is kept by the number of its move until it is adopted.
//
// Detach comes from the acceptor that a connection leaves, Adopt from the one that it goes to, in another ring, and neither waits
// for the shard. So Adopt may be met first. Then nothing more is taken from its ring until Detach has come, since what is
// behind it may be commands of the session. That is not long: Detach was on its way before the connection was.

import { assert } from "../../base/assert.ts";
import type { ShardSession } from "./shard-session.ts";

/** An Adopt that waits for its Detach. */
interface Adoption {
  readonly number: number;
  readonly slot: number;
}

export class Adoptions {
  /** By the numbers of their moves. */
  readonly #detached = new Map<number, ShardSession>();
  /** By port; undefined where none waits. */
  readonly #waiting: (Adoption | undefined)[];
  #waitingCount = 0;
  readonly #place: (session: ShardSession, port: number, slot: number) => void;

  /** `place` gives a session to a slot of a port. */
  constructor(ports: number, place: (session: ShardSession, port: number, slot: number) => void) {
    this.#waiting = Array.from({ length: ports }, () => undefined);
    this.#place = place;
  }

  /** Whether nothing may be taken from the ring of a port. */
  isWaiting(port: number): boolean {
    return this.#waitingCount > 0 && this.#waiting[port] !== undefined;
  }

  /** A session has lost its place. */
  detached(number: number, session: ShardSession): void {
    assert(!this.#detached.has(number), "a move has a number of its own");
    const port = this.#waitingCount === 0 ? -1 : this.#waiting.findIndex((each) => each?.number === number);
    if (port < 0) {
      this.#detached.set(number, session);
      return;
    }
    const { slot } = this.#waiting[port]!;
    this.#waiting[port] = undefined;
    this.#waitingCount--;
    this.#place(session, port, slot);
  }

  /** A session gets another place, now or when it has lost its old one. */
  adopt(number: number, port: number, slot: number): void {
    const session = this.#detached.get(number);
    if (session === undefined) {
      assert(this.#waiting[port] === undefined, "nothing is taken behind an Adopt that waits");
      this.#waiting[port] = { number, slot };
      this.#waitingCount++;
      return;
    }
    this.#detached.delete(number);
    this.#place(session, port, slot);
  }
}
